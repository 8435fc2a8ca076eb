// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "files.hpp"

#include <trireme/data/npy.hpp>
#include <trireme/data/shuffled_batches.hpp>
#include <trireme/data/token_files.hpp>
#include <trireme/data/tokens.hpp>

#include <doctest/doctest.h>
#include <support/damaged_files.hpp>
#include <support/left_out.hpp>
#include <support/messages.hpp>
#include <support/sanitizers.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

namespace data_tokens_test {
using namespace trireme;
using test_support::left_out;
using test_support::says;
using test_support::text_of_error;

namespace {

/// Number k of a row.
template<class N>
int number(sample_rows const& rows, std::size_t sample, std::size_t k) {
    N n;
    std::memcpy(&n, rows.of(sample) + k * sizeof(N), sizeof(N));
    return static_cast<int>(n);
}

/// Numbers as bytes, little-endian.
template<class N>
files::bytes bytes_of(std::vector<N> const& numbers) {
    files::bytes out(numbers.size() * sizeof(N));
    if (!out.empty()) std::memcpy(out.data(), numbers.data(), out.size());
    return out;
}

/// A header of llm.c, and 9 tokens 0, 1, ... behind it.
template<class N>
files::bytes of_llm_c(std::uint32_t magic, std::uint32_t version, std::uint32_t promised = 9) {
    std::vector<std::uint32_t> header(256);
    header[0] = magic;
    header[1] = version;
    header[2] = promised;
    return files::joined(bytes_of(header), bytes_of(std::vector<N>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

/// A file of numpy.save with an array of this type and shape.
template<class N>
files::bytes npy(std::string const& type, std::string const& shape, std::vector<N> const& numbers) {
    std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(118, ' ');
    std::string const all = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header;
    return files::joined(files::bytes(all.begin(), all.end()), bytes_of(numbers));
}

/// The message of the data_error about `path` that `f` throws.
template<class F>
std::string refused(std::string const& path, F&& f) {
    auto const text = text_of_error<data_error>(f);
    CHECK(says(text, {path.c_str()}));
    return text;
}

} // namespace

TEST_SUITE("data/tokens") {
    TEST_CASE("windows lie side by side, and targets are the tokens behind") {
        std::vector<std::uint16_t> const tokens{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
        for (std::size_t const first : {0u, 2u}) {
            token_windows const w(tokens, 3, 10, first);
            CHECK(w.inputs().beginnings == 1);
            CHECK(w.size() == (first == 0 ? 3 : 2));
            CHECK(w.targets().classes == 10);
            CHECK(w.inputs().shape == make_shape(3));
            for (std::size_t i = 0; i < w.size(); ++i)
                for (std::size_t k = 0; k < 3; ++k) {
                    CHECK(number<std::uint16_t>(w.inputs(), i, k) == static_cast<int>(first + 3 * i + k));
                    CHECK(number<std::uint16_t>(w.targets(), i, k) == static_cast<int>(first + 3 * i + k + 1));
                }
        }
    }

    TEST_CASE("each epoch draws where the first window begins, and no window leaves the text") {
        for (std::size_t const count : {4u, 5u, 6u, 7u, 8u, 20u, 31u}) {
            CAPTURE(count);
            std::vector<std::int32_t> tokens(count);
            for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<std::int32_t>(i);
            token_windows const w(tokens, 3, count, drawn_each_epoch);
            auto const most = w.inputs().beginnings;
            CHECK(w.size() == std::max<std::size_t>((count - 3) / 3, 1));
            CHECK(most == (count == 4 ? 1 : count == 5 ? 2 : 3));
            CHECK(number<std::int32_t>(w.inputs(), 0, 0) == 0);
            std::vector<std::size_t> seen(3);
            for (std::uint32_t epoch = 0; epoch < 64; ++epoch) {
                auto const s = sample_set(w).of_epoch(5, epoch);
                auto const first = number<std::int32_t>(s.inputs(), 0, 0);
                REQUIRE(first >= 0);
                REQUIRE(first < static_cast<int>(most));
                ++seen[static_cast<std::size_t>(first)];
                CHECK(number<std::int32_t>(s.targets(), w.size() - 1, 2) == first + static_cast<int>(3 * w.size()));
                CHECK(static_cast<std::size_t>(first) + 3 * w.size() < count);
                CHECK(s.inputs().beginnings == 1);
            }
            for (std::size_t k = 0; k < most; ++k) CHECK(seen[k] > 0);
            CHECK(copy_of(w, std::vector<std::uint32_t>{0}).inputs().beginnings == 1);
        }
    }

    TEST_CASE("batches without end visit every window once in an epoch, wherever one ends") {
        std::vector<std::int32_t> tokens(37);
        for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i);
        token_windows const w(tokens, 3, 37, drawn_each_epoch); // 11 windows
        shuffled_batches batches(w, 4, 5), again(w, 4, 5), others(w, 4, 6), large(w, 25, 5);
        std::vector<int> firsts, of_others;
        for (std::uint64_t k = 0; k < 11; ++k) // four epochs
            for (std::size_t i = 0; i < 4; ++i) {
                auto const b = batches.at(k);
                CHECK(b.size() == 4);
                firsts.push_back(number<std::int32_t>(b.inputs(), i, 0));
                CHECK(number<std::int32_t>(b.targets(), i, 2) == firsts.back() + 3);
                of_others.push_back(number<std::int32_t>(others.at(k).inputs(), i, 0));
            }
        CHECK(batches.epoch_of(2) == 0);
        CHECK(batches.epoch_of(3) == 1);
        CHECK(firsts != of_others);
        std::vector<std::vector<int>> orders;
        for (std::size_t epoch = 0; epoch < 4; ++epoch) {
            auto const begin = firsts.begin() + static_cast<std::ptrdiff_t>(11 * epoch);
            std::vector<int> of_epoch(begin, begin + 11);
            auto const drawn =
                number<std::int32_t>(sample_set(w).of_epoch(5, static_cast<std::uint32_t>(epoch)).inputs(), 0, 0);
            CHECK_FALSE(std::is_sorted(of_epoch.begin(), of_epoch.end()));
            orders.push_back(of_epoch);
            for (auto& first : orders.back()) first -= drawn;
            std::sort(of_epoch.begin(), of_epoch.end());
            for (std::size_t i = 0; i < 11; ++i) CHECK(of_epoch[i] == drawn + static_cast<int>(3 * i));
        }
        CHECK(orders[0] != orders[1]);
        CHECK(orders[1] != orders[2]);
        CHECK(number<std::int32_t>(again.at(9).inputs(), 1, 0) == firsts[37]); // whatever was asked before
        CHECK(number<std::int32_t>(again.at(2).inputs(), 3, 0) == firsts[11]);
        auto const b = large.at(1); // more than two epochs
        for (std::size_t i = 0; i < 19; ++i) CHECK(number<std::int32_t>(b.inputs(), i, 0) == firsts[25 + i]);
        CHECK_THROWS_WITH_AS(shuffled_batches(w, 0, 1), doctest::Contains("batches of 0 of 11 samples"), usage_error);
    }

    TEST_CASE("a text owns its windows, of bytes above 127, too") {
        auto const w = text_windows("\xff\x80 abc", 2);
        CHECK(w.size() == 2);
        CHECK(number<std::uint8_t>(w.inputs(), 0, 0) == 255);
        CHECK(number<std::uint8_t>(w.targets(), 1, 1) == 'b');
        auto const part = w.take(1, 1);
        CHECK(number<std::uint8_t>(part.inputs(), 0, 0) == ' ');
    }

    TEST_CASE("what is no window is told") {
        std::vector<int> tokens{0, 1, 2, 3};
        CHECK_THROWS_WITH_AS(token_windows(tokens, 0, 4), doctest::Contains("context = 0"), usage_error);
        CHECK_THROWS_WITH_AS(token_windows(tokens, 4, 4), doctest::Contains("4 tokens, and a window of 4"),
                             usage_error);
        CHECK(token_windows(tokens, 3, 4).size() == 1);
        CHECK_THROWS_WITH_AS(token_windows(tokens, 1, 4, 9), doctest::Contains("from token 9 on"), usage_error);
        CHECK_THROWS_WITH_AS(token_windows(tokens, 1, 3), doctest::Contains("token 3 is 3"), usage_error);
        tokens[1] = -1;
        CHECK_THROWS_WITH_AS(token_windows(tokens, 1, 4), doctest::Contains("token 1 is -1"), usage_error);
        CHECK_THROWS_AS(text_windows("", 1), usage_error);
    }

    TEST_CASE("the first token that a vocabulary lacks is found, wherever it is and whatever its type") {
        for (std::size_t const at : {0u, 1u, 4095u, 4096u, 9999u}) {
            CAPTURE(at);
            std::vector<std::uint32_t> tokens(10000, 65535);
            tokens[at] = 65536;
            tokens.back() = std::max(tokens.back(), 65537u);
            auto const what = text_of_error<usage_error>([&] { token_windows(tokens, 8, 65536); });
            CHECK(says(what, {("token " + std::to_string(at) + " is 6553").c_str(), "[0, 65536)"}));
        }
        std::vector<std::uint64_t> const large{1, std::numeric_limits<std::uint64_t>::max(), 1};
        CHECK(says(text_of_error<usage_error>([&] { token_windows(large, 1, 9); }), {"is 18446744073709551615,"}));
        std::vector<std::int8_t> const negative{1, -128, 1};
        CHECK(says(text_of_error<usage_error>([&] { token_windows(negative, 1, 256); }), {"token 1 is -128,"}));
        std::vector<std::uint8_t> const bytes{1, 255, 1};
        CHECK(token_windows(bytes, 1, 256).size() == 2);
        CHECK(says(text_of_error<usage_error>([&] { token_windows(bytes, 1, 255); }), {"token 1 is 255,"}));
    }

    TEST_CASE("a text is read whatever its bytes are, and what is none, or none that fits memory, is told") {
        files::folder const folder;
        std::string const odd("\0\xff\r\n", 4);
        CHECK(read_text(folder.write("odd", files::bytes(odd.begin(), odd.end()))) == odd);
        CHECK(read_text(folder.write("empty", {})).empty());
        CHECK_THROWS_AS(text_windows(read_text(folder.path("empty")), 1), usage_error);
        auto const text_of = [](std::string const& path) { return refused(path, [&] { read_text(path); }); };
        CHECK(says(text_of("/no/such/text"), {"cannot be opened"}));
        CHECK(says(text_of(folder.path()), {"this is a folder"}));
        auto const pipe = folder.path("pipe");
        REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
        CHECK(says(text_of(pipe), {"this is a pipe"}));
        auto const large = folder.write("large", {});
        std::filesystem::resize_file(large, std::uint64_t{1} << 43); // a hole, which takes no room on the disk
        if (!left_out(sanitized, "a sanitizer ends a process that asks for too much memory"))
            CHECK(says(text_of(large), {"takes 8796093022208 bytes of memory", "not to be had", "file_windows"}));
    }

    TEST_CASE_TEMPLATE("windows of a file of tokens are those of the tokens, and own the mapping", N, std::uint8_t,
                       std::uint16_t, std::int32_t, std::uint32_t, std::uint64_t) {
        files::folder const folder;
        std::vector<N> tokens(50);
        for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<N>(i * 5);
        auto const path = folder.write("tokens.bin", bytes_of(tokens));
        for (std::optional<std::size_t> const first : {std::optional<std::size_t>(0), std::optional<std::size_t>(3),
                                                       std::optional<std::size_t>(drawn_each_epoch)}) {
            token_windows const wanted(tokens, 8, 256, first);
            auto const samples = file_windows<N>(path, 8, 256, first);
            REQUIRE(samples.size() == wanted.size());
            CHECK(samples.inputs().kind == kind_of<N>());
            CHECK(samples.inputs().beginnings == wanted.inputs().beginnings);
            CHECK(samples.classes() == 256);
            for (std::size_t i = 0; i < wanted.size(); ++i) {
                CHECK(std::memcmp(samples.inputs().of(i), wanted.inputs().of(i), 8 * sizeof(N)) == 0);
                CHECK(std::memcmp(samples.targets().of(i), wanted.targets().of(i), 8 * sizeof(N)) == 0);
            }
        }
        auto const samples = file_windows<N>(path, 8, 256).take(5, 1);
        std::filesystem::remove(path); // the mapping remains
        CHECK(number<N>(samples.inputs(), 0, 0) == 200);
        CHECK(number<N>(samples.targets(), 0, 7) == 240);
    }

    TEST_CASE("a header of llm.c is recognised, and must be true") {
        files::folder const folder;
        auto const short_tokens = folder.write("gpt2", of_llm_c<std::uint16_t>(20240520, 1));
        auto const samples = file_windows<std::uint16_t>(short_tokens, 4, 9);
        CHECK(samples.size() == 2);
        CHECK(number<std::uint16_t>(samples.targets(), 1, 3) == 8);
        auto const long_tokens = folder.write("llama", of_llm_c<std::uint32_t>(20240801, 7));
        CHECK(number<std::uint32_t>(file_windows<std::uint32_t>(long_tokens, 4, 9).targets(), 1, 3) == 8);
        CHECK(says(refused(short_tokens, [&] { file_windows<std::uint32_t>(short_tokens, 4, 9); }),
                   {"tokens have 16 bits", "asked for with 32", "file_windows<std::uint16_t>"}));
        CHECK(says(refused(long_tokens, [&] { file_windows<std::uint16_t>(long_tokens, 4, 9); }),
                   {"file_windows<std::uint32_t>"}));
        for (std::uint32_t const promised : {0u, 8u, 10u, 0xffffffffu}) {
            auto const path = folder.write("wrong", of_llm_c<std::uint16_t>(20240520, 1, promised));
            CHECK(says(refused(path, [&] { file_windows<std::uint16_t>(path, 4, 9); }),
                       {("promises " + std::to_string(promised) + " tokens").c_str(), "18 follow"}));
        }
        auto const other = folder.write("other", of_llm_c<std::uint16_t>(20240520, 2)); // tokens, 0xd888 the first
        CHECK(says(refused(other, [&] { file_windows<std::uint16_t>(other, 4, 50257); }), {"token 0 is 55432"}));
    }

    TEST_CASE("a file that is no file of tokens is told, with its path") {
        files::folder const folder;
        auto const of = [&](std::string const& path, std::size_t vocabulary = 256) {
            return refused(path, [&] { file_windows<std::uint16_t>(path, 4, vocabulary); });
        };
        CHECK(says(of(folder.path("none")), {"cannot be opened"}));
        CHECK(says(of(folder.path()), {"this is a folder"}));
        auto const pipe = folder.path("pipe");
        REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
        CHECK(says(of(pipe), {"this is a pipe"}));
        CHECK(says(of(folder.write("empty", {})), {"is empty"}));
        CHECK(says(of(folder.write("odd", files::bytes(11))), {"tokens of 2 bytes do not divide the 11 bytes"}));
        CHECK(says(of(folder.write("short", files::bytes(8))), {"there are 4 tokens, and a window of 4"}));
        CHECK(says(of(folder.write("large", bytes_of(std::vector<std::uint16_t>{0, 1, 2, 3, 256, 4}))),
                   {"byte 8", "token 4 is 256", "[0, 256)"}));
        CHECK_THROWS_WITH_AS(file_windows<std::uint16_t>(folder.write("fits", files::bytes(10)), 0, 256),
                             doctest::Contains("context = 0"), usage_error);
        CHECK(file_windows<std::uint16_t>(folder.path("fits"), 4, 256).size() == 1);
    }

    TEST_CASE("a file larger than the memory is mapped") {
        files::folder const folder;
        auto const path = folder.write("large", {});
        std::filesystem::resize_file(path, std::uint64_t{1} << 43); // a hole, which takes no room on the disk
        if (left_out(sanitized, "a sanitizer keeps notes of all memory, a mapped file's as well")) return;
        auto const samples = file_windows<std::uint8_t>(path, 128, byte_vocabulary); // all bytes are tokens
        CHECK(samples.size() == (std::size_t{1} << 43) / 128 - 1);
        CHECK(number<std::uint8_t>(samples.targets(), samples.size() - 1, 127) == 0);
    }

    TEST_CASE("damaged files of tokens are refused, or read as they are") {
        std::string_view const spice("\xff\x00\x88\x34", 4);
        auto const read = [](std::string const& path) {
            auto const samples = file_windows<std::uint16_t>(path, 4, 9);
            for (std::size_t i = 0; i < samples.size(); ++i)
                for (std::size_t k = 0; k < 4; ++k) CHECK(number<std::uint16_t>(samples.targets(), i, k) < 9);
        };
        CHECK(files::refused_when_damaged(300, of_llm_c<std::uint16_t>(20240520, 1), spice, read) > 0);
    }

    TEST_CASE("an array of tokens owns its windows") {
        files::folder const folder;
        std::vector<std::uint16_t> const tokens{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
        auto const path = folder.write("tokens.npy", npy("<u2", "(10,)", tokens));
        for (auto const& array : {read_npy(path), map_npy(path)}) {
            auto const samples = npy_windows(array, 3, 10);
            CHECK(samples.size() == 3);
            CHECK(number<std::uint16_t>(samples.inputs(), 1, 0) == 3);
            CHECK(number<std::uint16_t>(samples.targets(), 2, 2) == 9);
            CHECK(npy_windows(array, 3, 10, 2).size() == 2);
            CHECK(npy_windows(array, 3, 10, drawn_each_epoch).inputs().beginnings == 3);
        }
        auto const samples = npy_windows(map_npy(path), 3, 10);
        std::filesystem::remove(path);
        CHECK(number<std::uint16_t>(samples.targets(), 2, 2) == 9);
        std::vector<std::uint32_t> const wide{70000, 1, 2};
        auto const of_wide = folder.write("wide.npy", npy("<u4", "(3,)", wide));
        CHECK(npy_windows(map_npy(of_wide), 2, 70001).size() == 1);
        CHECK(says(refused(of_wide, [&] { npy_windows(read_npy(of_wide), 2, 70000); }),
                   {"byte 128", "token 0 is 70000", "[0, 70000)"}));
        CHECK(says(refused(of_wide, [&] { npy_windows(read_npy(of_wide), 3, 70001); }), {"there are 3 tokens"}));
        auto const square = folder.write("square.npy", npy("<u2", "(5, 2)", tokens));
        CHECK(says(refused(square, [&] { npy_windows(read_npy(square), 3, 10); }), {"(5, 2)", "reshape(-1)"}));
        auto const floats = folder.write("floats.npy", npy("<f4", "(2,)", std::vector<float>{0, 1}));
        CHECK(says(refused(floats, [&] { npy_windows(read_npy(floats), 1, 10); }), {"astype(numpy.int32)"}));
    }
}

} // namespace data_tokens_test
