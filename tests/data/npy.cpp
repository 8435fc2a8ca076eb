// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/npy.hpp>

#include "files.hpp"

#include <doctest/doctest.h>
#include <support/damaged_files.hpp>
#include <support/messages.hpp>

#include <cstring>
#include <filesystem>
#include <numeric>

#include <sys/stat.h>

namespace data_npy_test {
namespace {

using namespace trireme;
using files::bytes;
using test_support::refusal;
using test_support::says;

/// A file of version `major`.0 whose header is padded as numpy.save does it, unless `padded` is false.
bytes file_of(std::string header, bytes const& numbers, unsigned major = 1, bool padded = true) {
    std::size_t const from = major == 1 ? 10 : 12;
    if (padded) {
        while ((from + header.size() + 1) % 64 != 0) header += ' ';
        header += '\n';
    }
    bytes out{0x93, 'N', 'U', 'M', 'P', 'Y', static_cast<std::uint8_t>(major), 0};
    for (std::size_t i = 8; i < from; ++i) out.push_back(static_cast<std::uint8_t>(header.size() >> 8 * (i - 8)));
    out.insert(out.end(), header.begin(), header.end());
    return files::joined(std::move(out), numbers);
}

std::string described(std::string const& type, std::string const& shape, std::string const& fortran = "False") {
    return "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

template<class N>
bytes as_bytes(std::vector<N> const& numbers) {
    bytes out(numbers.size() * sizeof(N));
    if (!out.empty()) std::memcpy(out.data(), numbers.data(), out.size());
    return out;
}

template<class N>
std::vector<N> numbers_of(npy_array const& a) {
    auto const all = a.numbers<N>();
    return {all.begin(), all.end()};
}

/// 0, 1, 2, ... as a file of this type reads and maps as what was written.
template<class N>
void check_type(files::folder const& folder, std::string const& type) {
    CAPTURE(type);
    std::vector<N> numbers(6);
    std::iota(numbers.begin(), numbers.end(), N{});
    for (unsigned const major : {1u, 2u, 3u}) {
        auto const path = folder.write("array.npy", file_of(described(type, "(3, 2)"), as_bytes(numbers), major));
        for (auto const& a : {read_npy(path), map_npy(path)}) {
            CHECK(a.kind() == kind_of<N>());
            CHECK(a.shape() == std::vector<std::size_t>{3, 2});
            CHECK(a.size() == 6);
            CHECK(a.path() == path);
            CHECK(numbers_of<N>(a) == numbers);
        }
    }
}

/// The message of the data_error that both readers throw, which must agree; with the byte in front.
std::string complaint(files::folder const& folder, bytes const& content) {
    auto const path = folder.write("hostile", content);
    std::string text[2];
    for (bool const mapped : {false, true}) {
        try {
            (void)(mapped ? map_npy(path) : read_npy(path));
            text[mapped] = "accepted";
        } catch (data_error const& e) {
            CHECK(e.path() == path);
            text[mapped] = std::string(e.what()).substr(path.size() + 2);
        }
    }
    CHECK(text[0] == text[1]);
    return text[0];
}

struct attack {
    std::string header;
    std::vector<char const*> words;
};

/// Each is refused with its words, in front of 8 bytes of numbers.
void refuse(std::vector<attack> const& attacks) {
    files::folder const folder;
    for (auto const& each : attacks) {
        auto const what = complaint(folder, file_of(each.header, bytes(8)));
        CAPTURE(each.header.substr(0, 200));
        for (auto const* word : each.words) CHECK(says(what, {word}));
    }
}

npy_array array(files::folder const& folder, std::string const& name, std::string const& type, std::string const& shape,
                bytes const& numbers, bool mapped = false) {
    auto const path = folder.write(name, file_of(described(type, shape), numbers));
    return mapped ? map_npy(path) : read_npy(path);
}

} // namespace

TEST_SUITE("data/npy") {
    TEST_CASE("every type and version") {
        files::folder const folder;
        check_type<std::uint8_t>(folder, "|u1");
        check_type<std::int8_t>(folder, "|i1");
        check_type<std::uint8_t>(folder, "<u1");
        check_type<std::uint8_t>(folder, "|b1");
        check_type<std::uint16_t>(folder, "<u2");
        check_type<std::uint32_t>(folder, "<u4");
        check_type<std::uint64_t>(folder, "<u8");
        check_type<std::int16_t>(folder, "<i2");
        check_type<std::int32_t>(folder, "<i4");
        check_type<std::int64_t>(folder, "<i8");
        check_type<float>(folder, "<f4");
        check_type<double>(folder, "<f8");
        check_type<double>(folder, "=f8");
        auto const a = array(folder, "f", "<f4", "(2,)", as_bytes(std::vector<float>{1, 2}));
        CHECK(says(refusal([&] { (void)a.numbers<double>(); }), {"another type", "kind()"}));
    }

    TEST_CASE("the bytes of numpy.save") {
        // numpy.save("array.npy", numpy.array([[1, 2], [3, 4]], "int16")), by NumPy 1.24
        using namespace std::string_view_literals;
        auto const text = "\x93NUMPY\x01\0v\0{'descr': '<i2', 'fortran_order': False, 'shape': (2, 2), }"sv;
        files::folder const folder;
        bytes content(text.begin(), text.end());
        content.resize(127, ' ');
        content.push_back('\n');
        auto const path = folder.write("array.npy", files::joined(content, {1, 0, 2, 0, 3, 0, 4, 0}));
        CHECK(numbers_of<std::int16_t>(read_npy(path)) == std::vector<std::int16_t>{1, 2, 3, 4});
    }

    TEST_CASE("the dictionary may be written in other ways") {
        files::folder const folder;
        for (auto const* header : {"{\"shape\":(2,),\"descr\":\"<f4\",\"fortran_order\":False}",
                                   "{ 'fortran_order' :False , 'shape'\t:\n( 2 , ) ,'descr':'<f4' , } \n\n",
                                   "{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }"}) {
            CAPTURE(header);
            for (bool const padded : {true, false}) {
                auto const path = folder.write("a", file_of(header, as_bytes(std::vector<float>{1, 2}), 2, padded));
                CHECK(numbers_of<float>(read_npy(path)) == std::vector<float>{1, 2});
            }
        }
    }

    TEST_CASE("shapes become rows") {
        files::folder const folder;
        auto const shape_of = [&](std::string const& shape, std::size_t count) {
            auto const a = array(folder, "a", "|u1", shape, bytes(count));
            auto const rows = a.rows();
            CHECK(rows.stride == rows.size());
            CHECK(rows.stride * a.shape()[0] == count);
            return rows.shape;
        };
        CHECK(shape_of("(3,)", 3) == make_shape(1));
        CHECK(shape_of("(3, 4)", 12) == make_shape(4));
        CHECK(shape_of("(3, 1, 2)", 6) == make_shape(1, 2));
        CHECK(shape_of("(2, 3, 4, 5)", 120) == make_shape(3, 4, 5));
        CHECK(shape_of("(2, 3, 4, 5, 2)", 240) == make_shape(3, 4, 5, 2));
        auto const point = array(folder, "point", "|u1", "()", {7});
        CHECK(point.shape().empty());
        CHECK(numbers_of<std::uint8_t>(point) == std::vector<std::uint8_t>{7});
        files::expect_data_error([&] { (void)point.rows(); }, point.path(), 128, "a single number");
        for (auto const* shape : {"(0,)", "(0, 4)", "(4, 0)"}) {
            auto const none = array(folder, "none", "|u1", shape, {});
            CHECK(none.size() == 0);
            CHECK(numbers_of<std::uint8_t>(none).empty());
            files::expect_data_error([&] { (void)none.rows(); }, none.path(), 128, "has no numbers");
        }
    }

    TEST_CASE("two arrays become samples, which keep both") {
        files::folder const folder;
        auto const x = as_bytes(std::vector<float>{1, 2, 3, 4, 5, 6});
        for (bool const mapped : {false, true}) {
            CAPTURE(mapped);
            owned_samples s, curve;
            {
                auto const inputs = array(folder, "x.npy", "<f4", "(3, 2)", x, mapped);
                auto const labels =
                    array(folder, "y.npy", "<i8", "(3,)", as_bytes(std::vector<std::int64_t>{2, 0, 1}), mapped);
                auto const values =
                    array(folder, "z.npy", "<f8", "(3, 1)", as_bytes(std::vector<double>{.5, .25, 0}), mapped);
                s = npy_samples(inputs, labels, 3);
                curve = npy_samples(inputs, values);
                CHECK(s.inputs().data == inputs.rows().data); // not copied
                CHECK(curve.targets().data == values.rows().data);
            }
            std::filesystem::remove(folder.path("x.npy")); // what is mapped stays
            CHECK(s.size() == 3);
            CHECK(s.inputs().shape == make_shape(2));
            CHECK(s.classes() == 3);
            float row[2];
            std::memcpy(row, s.inputs().of(2), sizeof row);
            CHECK(row[1] == 6);
            std::int32_t label = 0;
            std::memcpy(&label, s.targets().of(0), sizeof label);
            CHECK(label == 2);
            CHECK(curve.classes() == 0);
            double value = 0;
            std::memcpy(&value, curve.targets().of(1), sizeof value);
            CHECK(value == 0.25);
            CHECK(s.holder() != nullptr);
        }
    }

    TEST_CASE("inputs alone become samples without targets, which keep the array") {
        files::folder const folder;
        auto const x = as_bytes(std::vector<std::uint32_t>{1, 2, 3, 4, 5, 4'000'000'000});
        for (bool const mapped : {false, true}) {
            CAPTURE(mapped);
            owned_samples s;
            {
                auto const inputs = array(folder, "x.npy", "<u4", "(3, 2)", x, mapped);
                s = npy_samples(inputs);
                CHECK(s.inputs().data == inputs.rows().data); // not copied
            }
            std::filesystem::remove(folder.path("x.npy"));
            CHECK(s.size() == 3);
            CHECK(s.inputs().shape == make_shape(2));
            CHECK(s.inputs().kind == number_kind::u32);
            CHECK(s.targets().data == nullptr);
            CHECK(s.classes() == 0);
            auto const last = s.take(2, 1);
            std::uint32_t number = 0;
            std::memcpy(&number, last.inputs().of(0) + sizeof number, sizeof number);
            CHECK(number == 4'000'000'000);
        }
        auto const point = array(folder, "point", "|u1", "()", {7}), none = array(folder, "none", "|u1", "(0, 2)", {});
        files::expect_data_error([&] { npy_samples(point); }, point.path(), 128, "a single number");
        files::expect_data_error([&] { npy_samples(none); }, none.path(), 128, "has no numbers");
    }

    TEST_CASE("arrays that make no samples together") {
        files::folder const folder;
        auto const x = array(folder, "x", "|u1", "(3, 2)", bytes(6));
        auto const pair = [&](npy_array const& y, std::size_t classes) {
            return [&x, y, classes] { npy_samples(x, y, classes); };
        };
        auto const y = [&](std::string const& type, std::string const& shape, bytes const& numbers) {
            return array(folder, "y", type, shape, numbers);
        };
        auto const path = folder.path("y");
        auto const labels = y("<u2", "(3,)", as_bytes(std::vector<std::uint16_t>{0, 1, 3}));
        CHECK(npy_samples(x, labels, 4).classes() == 4);
        files::expect_data_error(pair(labels, 3), path, 132, "label 2 is 3, and labels lie in [0, 3)");
        files::expect_data_error(pair(y("|i1", "(3, 1)", {0, 255, 1}), 3), path, 129, "label 1 is -1");
        auto const large = as_bytes(std::vector<std::uint64_t>{0, 1, std::uint64_t(0) - 1});
        files::expect_data_error(pair(y("<u8", "(3,)", large), 3), path, 144, "label 2 is 18446744073709551615");
        files::expect_data_error(pair(y("<f4", "(3,)", bytes(12)), 3), path, 128, "save array.astype(numpy.int64)");
        files::expect_data_error(pair(y("|u1", "(3, 2)", bytes(6)), 3), path, 128, "numpy.argmax");
        files::expect_data_error(pair(y("|u1", "(2,)", bytes(2)), 3), path, 128, "2 targets for the 3 inputs");
        files::expect_data_error(pair(y("|u1", "(4,)", bytes(4)), 3), path, 128, "two files that belong together");
        files::expect_data_error(pair(y("|u1", "()", bytes(1)), 3), path, 128, "a single number");
        files::expect_data_error([&] { npy_samples(x, y("<f4", "(2,)", bytes(8))); }, path, 128, "2 targets");
        CHECK(says(refusal(pair(labels, 0)), {"classes, not 0"}));
        CHECK(says(refusal(pair(labels, std::size_t{1} << 31)), {"2^31 - 1 classes"}));
        auto const none = array(folder, "none", "|u1", "(0, 2)", {});
        files::expect_data_error([&] { npy_samples(none, labels, 4); }, none.path(), 128, "has no numbers");
    }

    TEST_CASE("types and orders that are not read, with the words that save them otherwise") {
        auto const type = [](char const* text) { return described(text, "(1,)"); };
        refuse({
            {type(">f8"), {"big-endian ('>f8')", "newbyteorder('<')"}},
            {type(">i2"), {"big-endian"}},
            {type(">u4"), {"big-endian"}},
            {type("<u3"), {"'<u3' are not read", "astype(numpy.int64)"}},
            {type("<M8[ns]"), {"'<M8[ns]'", "astype(numpy.int64)"}},
            {type("<f2"), {"'<f2' are not read", "astype(numpy.float32)"}},
            {type("<f16"), {"'<f16' are not read", "astype(numpy.float32)"}},
            {type("<c8"), {"complex", "numpy.abs"}},
            {type("|O"), {"Python's objects", "run code", "astype(numpy.float32)"}},
            {type("|S3"), {"are text", "numpy.unique"}},
            {type("<U5"), {"are text", "numpy.unique"}},
            {type("|V8"), {"structures", "array['x']"}},
            {type("|f4"), {"'|f4' are not read"}},
            {type("f4"), {"'f4' are not read"}},
            {type("x"), {"'x' are not read"}},
            {type(""), {"''", "a type is wanted"}},
            {type("<f4x"), {"'<f4x' are not read"}},
            {"{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (1,), }",
             {"structured", "array['x']"}},
            {described("<f4", "(2, 1)", "True"), {"column by column", "numpy.ascontiguousarray(array)"}},
            {described("|u1", "(1, 1, 1, 1, 1, 8)"), {"more than 5 dimensions", "array.reshape(len(array), -1)"}},
        });
    }

    TEST_CASE("what is no header") {
        auto const good = described("|u1", "(8,)");
        auto const with = [](char const* shape) { return described("|u1", shape); };
        refuse({
            {good, {"accepted"}},
            {"", {"'{' is wanted where the dictionary begins", "save the array again"}},
            {"[]", {"'{' is wanted", "here is '['"}},
            {"{", {"a quote is wanted where a key begins", "the header's end"}},
            {"{}", {"has no descr"}},
            {"{'descr': '|u1'}", {"has no shape"}},
            {"{'descr': '|u1', 'shape': (8,)}", {"has no fortran_order"}},
            {"{'descr' '|u1'}", {"':' is wanted after a key"}},
            {"{'descr", {"a string is never closed"}},
            {"{'descr': '|u1", {"a string is never closed"}},
            {"{'descr': u1}", {"a quote is wanted where the type begins, and here is 'u'"}},
            {"{'descr': '|u1' 'shape': (8,)}", {"'}' is wanted or ',' after a value"}},
            {"{'fortran_order': 1}", {"True or False, and here is '1'"}},
            {"{'shape': 8}", {"'(' is wanted where the shape begins"}},
            {good + "x", {"only spaces may follow the dictionary, and here is 'x'"}},
            {good.substr(0, good.size() - 1) + "'x': 1}", {"and no 'x'"}},
            {good.substr(0, good.size() - 1) + "'descr': '|u1'}", {"'descr' stands there twice"}},
            {good.substr(0, good.size() - 1) + "'shape': (8,)}", {"'shape' stands there twice"}},
            {good.substr(0, good.size() - 1) + "'fortran_order': False}", {"'fortran_order' stands there twice"}},
            {with("(8)"), {"a tuple of one number ends with a comma"}},
            {"{'shape': (8}", {"')' is wanted or ',' after an extent, and here is '}'"}},
            {with("(8,"), {"a whole number is wanted"}},
            {with("(2 4)"), {"')' is wanted or ','"}},
            {with("(,)"), {"a whole number is wanted in the shape, and here is ','"}},
            {with("(-8,)"), {"a whole number is wanted in the shape, and here is '-'"}},
            {with("(8.0,)"), {"here is '.'"}},
            {with("(8L,)"), {"here is 'L'"}},
            {"{'shape': " + std::string(4'000, '('), {"a whole number is wanted"}},
            {std::string(4'000, '{'), {"a quote is wanted"}},
        });
    }

    TEST_CASE("shapes that overflow, or that the file does not hold") {
        auto const with = [](char const* shape, char const* type = "|u1") { return described(type, shape); };
        auto const before = files::address_space_peak();
        refuse({
            {with("(18446744073709551616,)"), {"2^64 or more"}},
            {with("(99999999999999999999999,)"), {"2^64 or more"}},
            {with("(4294967296, 4294967296)"), {"overflows"}},
            {with("(4294967296, 4294967297, 8)"), {"overflows"}},
            {with("(0, 4294967296, 4294967296)"), {"overflows"}},
            {with("(4294967296, 4294967296, 0)"), {"overflows"}},
            {with("(2305843009213693952,)", "<f8"), {"overflows"}}, // 2^61 of 8 bytes: 0 in 64 bits
            {with("(2305843009213693953,)", "<f8"), {"overflows"}}, // and 8
            {with("(18446744073709551615,)"), {"take 18446744073709551615 bytes, and 8 follow", "truncated"}},
            {with("(1099511627776,)"), {"shape (1099511627776,) take", "truncated"}},
            {with("(9,)"), {"shape (9,) take 9 bytes, and 8 follow the header", "truncated"}},
            {with("(7,)"), {"take 7 bytes, and 8 follow", "trailing bytes"}},
            {with("(1, 3)", "<f4"), {"(1, 3) take 12 bytes"}},
            {with("(0,)"), {"take 0 bytes", "trailing bytes"}},
            {with("()"), {"shape () take 1 bytes", "trailing bytes"}},
        });
        CHECK(files::address_space_peak() - before < std::uint64_t{64} << 20);
    }

    TEST_CASE("the first bytes") {
        files::folder const folder;
        auto const good = file_of(described("|u1", "(8,)"), bytes(8));
        auto const said = [&](bytes const& content) { return complaint(folder, content); };
        CHECK(said(good) == "accepted");
        CHECK(says(said({}), {"byte 0: an npy file begins with \\x93NUMPY"}));
        CHECK(says(said({'P', 'K', 3, 4, 0, 0, 0, 0, 0, 0, 0, 0}), {".npz", "unpack it"}));
        for (std::size_t length = 0; length < good.size(); ++length) {
            CAPTURE(length);
            CHECK(said(bytes(good.begin(), good.begin() + std::ptrdiff_t(length))) != "accepted");
        }
        for (unsigned const major : {0u, 4u, 255u}) {
            auto other = good;
            other[6] = static_cast<std::uint8_t>(major);
            CHECK(says(said(other), {"byte 6: the file has version", "1.0, 2.0 and 3.0"}));
        }
        auto minor = good;
        minor[7] = 1;
        CHECK(says(said(minor), {"version 1.1"}));
        auto const before = files::address_space_peak();
        for (std::uint32_t const length : {0xFFFFFFF0u, 0xFFFFFFFFu, 0x80000000u, 200u}) {
            auto other = file_of(described("|u1", "(8,)"), bytes(8), 2);
            for (std::size_t i = 0; i < 4; ++i) other[8 + i] = static_cast<std::uint8_t>(length >> 8 * i);
            CHECK(says(said(other), {"byte 8: the header is said to have", "truncated or damaged"}));
        }
        auto const large = folder.write("large", file_of(described("|u1", "(8,)"), bytes(8), 2));
        {
            auto other = file_of(described("|u1", "(8,)"), bytes(8), 2);
            other[10] = 0x10, other[11] = 0x10; // 257 MiB, which a file without blocks has
            folder.write("large", other);
            std::filesystem::resize_file(large, std::uint64_t{1} << 30);
            files::expect_data_error([&] { (void)read_npy(large); }, large, 8, "at most 1048576 here");
        }
        CHECK(files::address_space_peak() - before < std::uint64_t{64} << 20);
        CHECK(says(said({0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, 0, 0, 0}), {"byte 11: the file ends within its header"}));
    }

    TEST_CASE("only regular files") {
        files::folder const folder;
        for (bool const mapped : {false, true}) {
            auto const open = [mapped](std::string const& path) {
                return [=] { (void)(mapped ? map_npy(path) : read_npy(path)); };
            };
            files::expect_data_error(open(folder.path()), folder.path(), 0, "this is a folder");
            files::expect_data_error(open(folder.path("none")), folder.path("none"), 0, "cannot be opened");
            files::expect_data_error(open("/dev/zero"), "/dev/zero", 0, "a device or socket");
            CHECK_THROWS_AS(open(std::string("a\0b", 3))(), usage_error);
        }
        auto const pipe = folder.path("pipe");
        REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
        files::expect_data_error([&] { (void)map_npy(pipe); }, pipe, 0, "this is a pipe");
    }

    TEST_CASE("mapped numbers lie where processors want them, and a mapped file takes no memory") {
        files::folder const folder;
        auto header = described("<f4", "(2,)");
        while ((10 + header.size()) % 4 != 1) header += ' ';
        auto const odd = folder.write("odd", file_of(header, bytes(8), 1, false));
        CHECK(read_npy(odd).size() == 2);
        files::expect_data_error([&] { (void)map_npy(odd); }, odd, std::filesystem::file_size(odd) - 8, "use read_npy");

        // 64 GiB without blocks
        auto const large = folder.write("large", file_of(described("<f4", "(1073741824, 16)"), {}));
        auto const begin = std::filesystem::file_size(large);
        std::filesystem::resize_file(large, begin + (std::uint64_t{1} << 36));
        auto const a = map_npy(large);
        CHECK(a.size() == std::size_t{1} << 34);
        CHECK(a.numbers<float>().back() == 0);
        CHECK(a.rows().of((std::size_t{1} << 30) - 1) - a.rows().data == (std::ptrdiff_t{1} << 36) - 64);
    }

    TEST_CASE("a file that is replaced while it is mapped stays what it was") {
        files::folder const folder;
        auto const a = array(folder, "x", "|u1", "(4,)", {1, 2, 3, 4}, true);
        auto const next = folder.write("next", file_of(described("|u1", "(1,)"), {9}));
        std::filesystem::rename(next, folder.path("x"));
        CHECK(numbers_of<std::uint8_t>(a) == std::vector<std::uint8_t>{1, 2, 3, 4});
        CHECK(map_npy(folder.path("x")).size() == 1);
    }

    TEST_CASE("damaged files are refused or read, and nothing else") {
        std::vector<std::int16_t> numbers(48);
        std::iota(numbers.begin(), numbers.end(), std::int16_t{-9});
        // the header without padding: more of the damage meets what is read
        auto const whole = file_of(described("<i2", "(4, 3, 2, 2)"), as_bytes(numbers), 1, false);
        auto const read = [](std::string const& path) {
            auto const a = read_npy(path);
            CHECK(a.size() * detail::npy::bytes_of(a.kind()) <= std::filesystem::file_size(path));
            if (a.shape().empty() || a.size() == 0) return;
            auto const s = npy_samples(a, a);
            std::uint8_t last = 0;
            std::memcpy(&last, s.inputs().of(s.size() - 1) + s.inputs().bytes() - 1, 1);
            if (a.kind() != number_kind::u8) return;
            (void)npy_samples(a, a, 256);
        };
        using namespace std::string_view_literals;
        auto const spice = "'\"(){}[],: \n0123456789<>|=uifbTFL\0\xFF"sv;
        auto const refused = files::refused_when_damaged(300, whole, spice, read);
        CHECK(refused > 100);
        CHECK(refused < 300);
        files::refused_when_damaged(300, whole, spice, [](std::string const& path) {
            auto const a = map_npy(path);
            if (a.size() == 0) return;
            with_number_of(a.kind(), [&]<class N>(N) { (void)(a.numbers<N>().back() == N{}); });
        });
    }
}

} // namespace data_npy_test
