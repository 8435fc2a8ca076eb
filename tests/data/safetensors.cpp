// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/safetensors.hpp>

#include "safetensors_files.hpp"

#include <doctest/doctest.h>
#include <support/seed.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace data_safetensors_test {
namespace {

using namespace safetensors_files;
using trireme::safetensors_file;
using trireme::safetensors_metadata;
using trireme::safetensors_narrowing;
using trireme::safetensors_tensor;
using trireme::write_safetensors;
using dtype = trireme::safetensors_dtype;

constexpr std::uint64_t most = ~std::uint64_t{0};

std::uint64_t data_begin(bytes const& content) {
    std::uint64_t length = 0;
    std::memcpy(&length, content.data(), sizeof length);
    return 8 + length;
}

/// A file holds this content, whatever the order in it.
struct content {
    std::vector<trireme::safetensors_entry> entries;
    std::vector<bytes> values;
    safetensors_metadata metadata;

    explicit content(std::string const& path) {
        safetensors_file const file(path);
        entries = file.tensors();
        metadata = file.metadata();
        for (auto const& entry : entries) values.push_back(bytes_of(file, entry));
    }

    std::vector<safetensors_tensor> tensors() const {
        std::vector<safetensors_tensor> all;
        for (std::size_t i = 0; i < entries.size(); ++i) {
            all.push_back({entries[i].name, entries[i].dtype, entries[i].shape, raw(values[i])});
        }
        return all;
    }

    bool operator==(content const& other) const {
        auto const same = [](auto const& a, auto const& b) {
            return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape;
        };
        return std::ranges::equal(entries, other.entries, same) && values == other.values && metadata == other.metadata;
    }
};

/// Tensors of every kind, with names and metadata that are hard to write.
struct gallery {
    bytes data = files::random_bytes(4096, 3);
    std::vector<safetensors_tensor> tensors = {};
    safetensors_metadata metadata = {{"format", "pt"},
                                     {"", ""},
                                     {"quote\" back\\ slash/ \b\f\n\r\t\x01\x1f\x7f", "caf\xC3\xA9 \xE2\x82\xAC"},
                                     {"\xF0\x9F\x9A\xA3", std::string("a\0b", 3)}};

    gallery() {
        for (std::size_t i = 0; i <= static_cast<std::size_t>(dtype::u64); ++i) {
            auto const bits = trireme::detail::safetensors::kinds[i].bits;
            add("dtype " + std::to_string(i), static_cast<dtype>(i), {2, 1, 4}, bits);
        }
        add("scalar", dtype::f64, {}, 8);
        add("empty", dtype::f32, {3, 0, 5}, 0);
        add("also empty", dtype::boolean, {0}, 0);
        add("", dtype::u8, {5}, 5);
        add("fc1.weight", dtype::f32, {3, 7}, 84);
        add("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x9A\xA3\"\\\n", dtype::bf16, {1, 1, 1, 1, 1, 3}, 6);
    }

    void add(std::string const& name, dtype type, std::vector<std::size_t> const& shape, std::size_t size) {
        auto const begin = 61 * tensors.size(); // odd places: nothing is aligned
        tensors.push_back({name, type, shape, raw(data).subspan(begin, size)});
    }
};

/// One small change, of a kind that damage or malice might make.
void change(bytes& text, std::mt19937& random) {
    constexpr std::string_view letters = "{}[]\",:\\0123456789-.eu \nabFI\x80\xC3";
    auto const below = [&](std::size_t n) { return static_cast<std::ptrdiff_t>(random() % n); };
    auto const place = text.begin() + below(text.size());
    auto const left = static_cast<std::size_t>(text.end() - place);
    auto const letter = static_cast<std::uint8_t>(letters[static_cast<std::size_t>(below(letters.size()))]);
    auto const kind = below(5);
    if (kind == 0) *place = static_cast<std::uint8_t>(*place ^ 1u << below(8));
    if (kind == 1) *place = letter;
    if (kind == 2) text.insert(place, letter);
    if (kind == 3) text.erase(place, place + 1 + below(std::min<std::size_t>(9, left)));
    if (kind == 4) { // some bytes once more, elsewhere
        bytes const piece(place, place + 1 + below(std::min<std::size_t>(60, left)));
        text.insert(text.begin() + below(text.size()), piece.begin(), piece.end());
    }
}

std::size_t files_in(files::folder const& folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

} // namespace

TEST_SUITE("data/safetensors") {
    TEST_CASE("every dtype, empty tensors, scalars, hard names and metadata come back as they were") {
        files::folder const folder;
        gallery const all;
        auto const path = folder.path("all.safetensors");
        write_safetensors(path, all.tensors, all.metadata);
        CHECK(files_in(folder) == 1);

        safetensors_file const file(path);
        CHECK(file.path() == path);
        CHECK((file.metadata() == all.metadata));
        CHECK(file.tensors().size() == all.tensors.size());
        for (auto const& tensor : all.tensors) {
            CAPTURE(tensor.name);
            auto const& entry = file.at(tensor.name);
            CHECK(&entry == file.find(tensor.name));
            CHECK(entry.dtype == tensor.dtype);
            CHECK((entry.shape == tensor.shape));
            CHECK(entry.bytes() == tensor.bytes.size());
            auto const values = bytes_of(file, entry);
            CHECK(std::ranges::equal(raw(values), tensor.bytes));
        }
        CHECK(file.find("none") == nullptr);
        CHECK(file.find(std::string_view()) != nullptr); // the tensor named ""

        auto reversed = all.tensors;
        std::ranges::reverse(reversed);
        write_safetensors(folder.path("again"), reversed, all.metadata);
        CHECK((content_of(path) == content_of(folder.path("again"))));
        CHECK((content(path) == content(folder.path("again"))));
    }

    TEST_CASE("the bytes are those of the reference implementation") {
        files::folder const folder;
        auto const path = folder.path("file");
        write_safetensors(path, {});
        CHECK((content_of(path) == file_of("{}      ")));
        CHECK(safetensors_file(path).tensors().empty());

        write_safetensors(path, {}, {{"framework", "pt"}});
        CHECK((content_of(path) == file_of(R"({"__metadata__":{"framework":"pt"}}     )")));

        std::vector<std::uint8_t> const eight = {1, 2, 3, 4, 5, 6, 7, 8};
        auto const first = [&](std::size_t count) { return raw(eight).first(count); };
        write_safetensors(path,
                          {{"b", dtype::f32, {1}, first(4)},
                           {"a", dtype::f32, {1, 1}, first(4)},
                           {"z", dtype::i64, {}, first(8)},
                           {"h\n\x1f", dtype::bf16, {2, 0}, {}}},
                          {{"k", "\xC3\xA9"}});
        std::string const json = R"({"__metadata__":{"k":")"
                                 "\xC3\xA9"
                                 R"("},"z":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                                 R"("a":{"dtype":"F32","shape":[1,1],"data_offsets":[8,12]},)"
                                 R"("b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]},)"
                                 R"("h\n\u001f":{"dtype":"BF16","shape":[2,0],"data_offsets":[16,16]}})";
        auto const padded = json + std::string((8 - json.size() % 8) % 8, ' ');
        CHECK((content_of(path) == file_of(padded, {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 1, 2, 3, 4})));
    }

    TEST_CASE("every truncation is an error") {
        files::folder const folder;
        gallery const all;
        write_safetensors(folder.path("whole"), all.tensors, all.metadata);
        auto const whole = content_of(folder.path("whole"));
        for (std::size_t length = 0; length < whole.size(); ++length) {
            CAPTURE(length);
            CHECK(complaint(folder, bytes(whole.begin(), whole.begin() + std::ptrdiff_t(length))) != "accepted");
        }
        CHECK(complaint(folder, files::joined(whole, {0})).find("trailing bytes") != std::string::npos);
        CHECK(complaint(folder, whole) == "accepted");
    }

    TEST_CASE("100,000 tensors, and as many names that are equal or nearly so") {
        files::folder const folder;
        std::vector<std::uint8_t> values(100'000);
        std::iota(values.begin(), values.end(), std::uint8_t{0});
        std::vector<safetensors_tensor> tensors;
        for (std::size_t i = 0; i < values.size(); ++i) {
            tensors.push_back(
                {std::string(i % 100, 'x') + std::to_string(i), dtype::u8, {1}, raw(values).subspan(i, 1)});
        }
        auto const path = folder.path("many");
        write_safetensors(path, tensors);
        safetensors_file const file(path);
        REQUIRE(file.tensors().size() == values.size());
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < values.size(); i += 7) {
            wrong += bytes_of(file, file.at(tensors[i].name)) != bytes{values[i]} ? 1 : 0;
        }
        CHECK(wrong == 0);

        auto repeated = std::string("{");
        for (int i = 0; i < 100'000; ++i) repeated += R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)";
        repeated.back() = '}';
        CHECK(complaint(folder, file_of(repeated)).find("duplicate key 'a'") != std::string::npos);
    }

    TEST_CASE("values of a float: exact, or refused") {
        files::folder const folder;
        std::vector<float> const singles = {0.0f, -0.0f, 1.5f, 0x1p-149f, INFINITY, std::bit_cast<float>(0x7F800001u)};
        std::vector<double> const doubles = {0.1, -0.0, 0x1p-1074, 1e300};
        std::vector<std::int32_t> const integers = {1};
        std::vector<std::uint16_t> halves(65536);
        std::iota(halves.begin(), halves.end(), std::uint16_t{0});
        auto const path = folder.path("numbers");
        write_safetensors(path, {{"f32", dtype::f32, {2, 3}, raw(singles)},
                                 {"f64", dtype::f64, {4}, raw(doubles)},
                                 {"i32", dtype::i32, {1}, raw(integers)},
                                 {"f16", dtype::f16, {256, 256}, raw(halves)},
                                 {"bf16", dtype::bf16, {65536}, raw(halves)}});
        safetensors_file const file(path);
        std::vector<float> f(6);
        file.read("f32", {2, 3}, f);
        CHECK(std::memcmp(f.data(), singles.data(), 24) == 0); // also the NaN's bits
        std::vector<double> d(4);
        file.read("f64", {4}, d);
        CHECK(std::memcmp(d.data(), doubles.data(), 32) == 0);
        d.resize(6);
        file.read("f32", {2, 3}, d);
        CHECK(std::equal(d.begin(), d.end() - 1, singles.begin()));
        CHECK(d[3] == 0x1p-149);

        f.resize(65536);
        d.resize(65536);
        std::size_t wrong = 0;
        for (auto const* name : {"f16", "bf16"}) {
            bool const is_half = *name == 'f';
            file.read(name, is_half ? std::vector<std::size_t>{256, 256} : std::vector<std::size_t>{65536}, f);
            file.read(name, is_half ? std::vector<std::size_t>{256, 256} : std::vector<std::size_t>{65536}, d);
            int const digits = is_half ? 10 : 7;
            int const top = is_half ? 31 : 255;
            for (int i = 0; i < 65536; ++i) {
                int const exponent = i >> digits & top;
                int const fraction = i & ((1 << digits) - 1);
                double value = std::ldexp(exponent == 0 ? fraction : fraction + (1 << digits),
                                          (exponent == 0 ? 1 : exponent) - top / 2 - digits);
                if (exponent == top) value = fraction == 0 ? INFINITY : NAN;
                auto const k = static_cast<std::size_t>(i);
                bool const same = std::isnan(value) ? std::isnan(f[k]) && std::isnan(d[k])
                                                    : std::abs(double{f[k]}) == value && std::abs(d[k]) == value;
                wrong += same && std::signbit(f[k]) == (i >= 32768) && std::signbit(d[k]) == (i >= 32768) ? 0 : 1;
            }
        }
        CHECK(wrong == 0);

        auto const refused = [&](char const* name, std::vector<std::size_t> const& shape, std::string const& words) {
            std::string what;
            try {
                f.resize(std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>()));
                file.read(name, shape, f);
            } catch (trireme::data_error const& error) {
                what = error.what();
            }
            CHECK_MESSAGE(what.starts_with(path), what);
            CHECK_MESSAGE(what.find(words) != std::string::npos, what);
        };
        refused("f64", {4},
                "tensor 'f64' is F64 [4], and wanted is F32 (or BF16, F16) [4]: load it into numbers as wide");
        refused("i32", {1}, "tensor 'i32' is I32 [1], and wanted is F32");
        refused("f32", {3, 2}, "tensor 'f32' is F32 [2, 3], and wanted is F32 (or BF16, F16) [3, 2]: pass a file");
        refused("f32", {}, "and wanted is F32 (or BF16, F16) []");
        refused("fc1.weight", {4}, "no tensor 'fc1.weight' among the 5 of this file: 'bf16', 'f16', 'f32', 'f64', ...");
        files::expect_data_error([&] { file.read("i32", {1}, std::span(d).first(1)); }, path,
                                 data_begin(content_of(path)) + file.at("i32").begin,
                                 "and wanted is F64 (or F32, BF16, F16) [1]: save it so, or read its bytes");
        f.resize(4);
        file.read("f64", {4}, f, safetensors_narrowing::rounded);
        CHECK((f == std::vector<float>{0.1f, -0.0f, 0.0f, INFINITY}));
        files::expect_usage_error([&] { file.read("f32", {2, 3}, f); }, "has 4 values for the shape [2, 3]");
    }

    TEST_CASE("misuse of a read, and a file that becomes shorter after it was checked") {
        files::folder const folder;
        gallery const all;
        auto const path = folder.path("file");
        write_safetensors(path, all.tensors);
        safetensors_file const file(path);
        auto entry = file.at("fc1.weight");
        bytes out(84);
        auto const bytes_out = std::as_writable_bytes(std::span(out));
        files::expect_usage_error([&] { file.read(entry, bytes_out.first(83)); },
                                  "has 84 bytes, and the span passed has 83");
        auto foreign = entry;
        foreign.begin += 1u << 20;
        foreign.end += 1u << 20;
        files::expect_usage_error([&] { file.read(foreign, bytes_out); }, "not one of the file");
        foreign = {.name = "x", .begin = most - 84, .end = most};
        files::expect_usage_error([&] { file.read(foreign, bytes_out); }, "not one of the file");

        auto const end = data_begin(content_of(path)) + entry.end;
        std::filesystem::resize_file(path, end - 10);
        files::expect_data_error([&] { file.read(entry, bytes_out); }, path, end - 10, "and now ends here");
        std::vector<float> values(21);
        files::expect_data_error([&] { file.read("fc1.weight", {3, 7}, values); }, path, end - 10, "now ends here");
    }

    TEST_CASE("only regular files are read, and a pipe without a writer does not hang") {
        files::folder const folder;
        auto const pipe = folder.path("pipe");
        REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
        struct {
            std::string path, words;
        } const all[] = {{pipe, "this is a pipe"},
                         {folder.path(), "this is a folder"},
                         {"/dev/zero", "this is a device"},
                         {folder.path("none"), "cannot be opened"}};
        for (auto const& each : all) {
            files::expect_data_error([&] { safetensors_file{each.path}; }, each.path, 0, each.words);
        }
        files::expect_data_error([&] { write_safetensors(pipe, {}); }, pipe, 0, "only a file is replaced");
        files::expect_data_error([&] { write_safetensors(folder.path(), {}); }, folder.path(), 0,
                                 "only a file is replaced");
        CHECK(files_in(folder) == 1);
    }

    TEST_CASE("tensors that no file can hold are refused before anything is written") {
        files::folder const folder;
        auto const path = folder.write("old", {1, 2, 3});
        bytes const data(64);
        auto const eight = raw(data).first(8);
        auto const refused = [&](std::vector<safetensors_tensor> const& tensors, std::string const& words) {
            files::expect_usage_error([&] { write_safetensors(path, tensors, {}); }, words);
        };
        refused({{"a", dtype::f32, {3}, eight}}, "tensor 'a': F32 [3] does not take 8 bytes");
        refused({{"a", dtype::u8, {most, 2, 0}, {}}}, "does not take 0 bytes");
        refused({{"a", dtype::f4, {3}, raw(data).first(2)}}, "F4 [3] does not take 2 bytes");
        refused({{"a", dtype::f32, {2}, eight}, {"b", dtype::u8, {8}, eight}, {"a", dtype::u8, {8}, eight}},
                "two tensors are named 'a'");
        refused({{"__metadata__", dtype::f32, {2}, eight}}, "no tensor may be named '__metadata__'");
        refused({{"\xFF", dtype::f32, {2}, eight}}, "is not: pass names in UTF-8");
        files::expect_usage_error([&] { write_safetensors(path, {}, {{"k", "\xC3"}}); }, "UTF-8");
        CHECK((content_of(path) == bytes{1, 2, 3}));
        CHECK(files_in(folder) == 1);
    }

    TEST_CASE("a write that fails leaves the old file, and nothing beside it") {
        files::folder const folder;
        auto const path = folder.write("old", {1, 2, 3});
        bytes const data(100'000);
        std::vector<safetensors_tensor> const tensors = {{"a", dtype::u8, {data.size()}, raw(data)}};
        for (::rlim_t const limit : {0u, 10u, 50'000u, 100'000u}) {
            CAPTURE(limit);
            auto const write = [&] {
                files::file_limit const full(limit);
                write_safetensors(path, tensors);
            };
            files::expect_data_error(write, path, limit, "writing fails (File too large)");
            CHECK((content_of(path) == bytes{1, 2, 3}));
            CHECK(files_in(folder) == 1);
        }
        auto const nowhere = folder.path("none/file");
        files::expect_data_error([&] { write_safetensors(nowhere, tensors); }, nowhere, 0,
                                 "the folder cannot be opened (No such");
        auto const below_file = path + "/file";
        files::expect_data_error([&] { write_safetensors(below_file, tensors); }, below_file, 0, "Not a directory");
        auto const endless = folder.path(std::string(300, 'x'));
        files::expect_data_error([&] { write_safetensors(endless, tensors); }, endless, 100'000 + 72,
                                 "cannot be put in its place (File name too long)");
        if (::geteuid() != 0) { // root may write everywhere
            ::chmod(folder.path().c_str(), 0500);
            files::expect_data_error([&] { write_safetensors(path, tensors); }, path, 0,
                                     "no file can be made in the folder");
            ::chmod(folder.path().c_str(), 0700);
        }
        CHECK((content_of(path) == bytes{1, 2, 3}));
        CHECK(files_in(folder) == 1);
    }

    TEST_CASE("whoever reads the old file goes on reading it; a link is replaced, not followed") {
        files::folder const folder;
        std::vector<float> const ones = {1}, twos = {2};
        auto const path = folder.path("file");
        write_safetensors(path, {{"a", dtype::f32, {1}, raw(ones)}});
        safetensors_file const old(path);
        write_safetensors(path, {{"a", dtype::f32, {1}, raw(twos)}});
        std::vector<float> value(1);
        old.read("a", {1}, value);
        CHECK(value == ones);
        safetensors_file(path).read("a", {1}, value);
        CHECK(value == twos);

        auto const link = folder.path("link");
        REQUIRE(::symlink("file", link.c_str()) == 0);
        write_safetensors(link, {});
        CHECK(safetensors_file(link).tensors().empty());
        CHECK(safetensors_file(path).tensors().size() == 1);
    }

    TEST_CASE("changed files are refused, or hold what they say") {
        files::folder const folder;
        std::mt19937 random(test_seed());
        bytes const data = files::random_bytes(64, 5);
        auto const origin = folder.path("origin");
        write_safetensors(origin,
                          {{"fc.bias", dtype::f16, {2}, raw(data).first(4)},
                           {"\xC3\xA9\n", dtype::u8, {1, 3}, raw(data).first(3)},
                           {"fc.weight", dtype::f32, {2, 3}, raw(data).first(24)},
                           {"none", dtype::f32, {0}, {}},
                           {"step", dtype::i64, {}, raw(data).first(8)}},
                          {{"k", "v\""}});
        auto const whole = content_of(origin);
        auto const body = whole.begin() + static_cast<std::ptrdiff_t>(data_begin(whole));
        bytes const head(whole.begin() + 8, body);

        auto const before = files::address_space_peak();
        int refused = 0, accepted = 0;
        for (int i = 0; i < 6000; ++i) {
            auto changed = whole;
            if (i % 2 == 0) { // the JSON alone, with its true length: so most get further than that
                auto json = head;
                for (auto count = 1 + random() % 3; count != 0; --count) change(json, random);
                changed = file_of({json.begin(), json.end()}, {body, whole.end()});
            } else {
                for (auto count = 1 + random() % 3; count != 0; --count) change(changed, random);
            }
            auto const path = write_new(folder, changed);
            try {
                content const found(path);
                ++accepted;
                if (accepted > 60) continue; // a write waits for the disk
                write_safetensors(folder.path("again"), found.tensors(), found.metadata);
                content const again(folder.path("again"));
                auto const canonical = content_of(folder.path("again"));
                write_safetensors(folder.path("third"), again.tensors(), again.metadata);
                bool const same_head =
                    changed.size() == whole.size() && std::equal(whole.begin(), body, changed.begin());
                if (!(again == found) || content_of(folder.path("third")) != canonical ||
                    (same_head && changed != canonical)) {
                    FAIL_CHECK("case ", i, " does not come back as it was read");
                }
            } catch (trireme::data_error const&) {
                ++refused;
            }
        }
        CHECK(refused > 3000);
        CHECK(accepted > 100);
        CHECK(files::address_space_peak() - before < std::uint64_t{256} << 20);
    }

    TEST_CASE("a header longer than 100 MB is not written") { // the last, for it takes memory
        files::folder const folder;
        auto const longest = std::size_t{100'000'000} - 25; // {"__metadata__":{"k":""}}
        CHECK(trireme::detail::safetensors::header_of({}, {{"k", std::string(longest, 'x')}}).size() == 100'000'008);
        auto const write = [&] { write_safetensors(folder.path("long"), {}, {{"k", std::string(longest + 1, 'x')}}); };
        files::expect_usage_error(write, "take 100000008 bytes, and at most 100000000 are allowed");
        CHECK(files_in(folder) == 0);
    }
}

} // namespace data_safetensors_test
