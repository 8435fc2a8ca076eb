// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/safetensors_header.hpp>

#include "safetensors_files.hpp"

#include <doctest/doctest.h>

#include <filesystem>

namespace data_safetensors_header_test {
namespace {

using namespace safetensors_files;
using trireme::safetensors_file;

constexpr std::uint64_t most = ~std::uint64_t{0};

struct attack {
    std::string json;
    std::string words;
};

/// Each is refused with its words, in front of `data`.
void refuse(std::vector<attack> const& attacks, bytes const& data = bytes(8)) {
    files::folder const folder;
    for (auto const& attack : attacks) {
        auto const what = complaint(folder, file_of(attack.json, data));
        CHECK_MESSAGE(what.find(attack.words) != std::string::npos, attack.json.substr(0, 300), " gave '", what,
                      "', without '", attack.words, "'");
    }
}

} // namespace

TEST_SUITE("data/safetensors_header") {
    TEST_CASE("dtypes have the format's names and sizes") {
        using dtype = trireme::safetensors_dtype;
        struct {
            dtype type;
            char const* name;
            std::size_t bytes; // of 8 elements
        } const all[] = {{dtype::boolean, "BOOL", 8},
                         {dtype::f4, "F4", 4},
                         {dtype::f6_e2m3, "F6_E2M3", 6},
                         {dtype::f6_e3m2, "F6_E3M2", 6},
                         {dtype::u8, "U8", 8},
                         {dtype::i8, "I8", 8},
                         {dtype::f8_e5m2, "F8_E5M2", 8},
                         {dtype::f8_e4m3, "F8_E4M3", 8},
                         {dtype::f8_e8m0, "F8_E8M0", 8},
                         {dtype::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
                         {dtype::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
                         {dtype::i16, "I16", 16},
                         {dtype::u16, "U16", 16},
                         {dtype::f16, "F16", 16},
                         {dtype::bf16, "BF16", 16},
                         {dtype::i32, "I32", 32},
                         {dtype::u32, "U32", 32},
                         {dtype::f32, "F32", 32},
                         {dtype::c64, "C64", 64},
                         {dtype::f64, "F64", 64},
                         {dtype::i64, "I64", 64},
                         {dtype::u64, "U64", 64}};
        files::folder const folder;
        for (auto const& each : all) {
            CAPTURE(each.name);
            auto const offsets = "[0," + std::to_string(each.bytes) + "]";
            auto const name = "\"" + std::string(each.name) + "\"";
            auto const path = folder.write("file", file_of(described(name, "[8]", offsets), bytes(each.bytes)));
            CHECK(safetensors_file(path).at("a").dtype == each.type);
        }
    }

    TEST_CASE("JSON may be written in other ways") {
        files::folder const folder;
        // Spaces, fields in another order, every escape, data in another order than names, no alignment.
        auto const path =
            folder.write("other", file_of("{ \"b\" :\n{\"data_offsets\":[ 1 ,\t3], \"shape\":[1 ],\r\"d\\u0074ype\":"
                                          "\"BF16\"},\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u20aC\\uD83D\\udEa3\\u0000\":"
                                          "{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
                                          "\"__metadata__\":{}} \n ",
                                          {7, 0x80, 0x3F}));
        safetensors_file const file(path);
        CHECK((bytes_of(file, file.at(std::string("\"\\/\b\f\n\r\t\xE2\x82\xAC\xF0\x9F\x9A\xA3\0", 16))) == bytes{7}));
        std::vector<float> one(1);
        file.read("b", {1}, one);
        CHECK(one[0] == 1);
        CHECK(file.metadata().empty());
    }

    TEST_CASE("the header's length") {
        files::folder const folder;
        auto const refused = [&](bytes const& content, std::uint64_t offset, std::string const& words) {
            auto const path = folder.write("hostile", content);
            files::expect_data_error([&] { safetensors_file{path}; }, path, offset, words);
        };
        auto const before = files::address_space_peak();
        refused({}, 0, "at least 10 bytes, and this one 0");
        refused({2, 0, 0, 0, 0, 0, 0, 0, '{'}, 9, "at least 10 bytes, and this one 9");
        for (auto const length : {most, most - 7, most >> 1, std::uint64_t{100'000'000}, std::uint64_t{3}}) {
            refused(with_length(length, "{}"), 0, "said to have " + std::to_string(length) + " bytes");
        }
        refused(with_length(0, "{}"), 0, "said to have 0 bytes");
        refused(with_length(1, "{}"), 0, "said to have 1 bytes");
        refused(with_length(2, " {}"), 8, "must begin with '{'");
        refused(with_length(2, "[]"), 8, "must begin with '{'");
        refused(with_length(2, "{}}"), 10, "trailing bytes");
        refused(with_length(2, "{ }"), 10, "here is the header's end");

        // A file with holes is as long as it says, and still its header is not believed beyond the limit.
        auto const path = folder.write("long", with_length(100'000'001, "{}"));
        std::filesystem::resize_file(path, 200'000'000);
        files::expect_data_error([&] { safetensors_file{path}; }, path, 0, "it has 2 to 100000000");
        CHECK(files::address_space_peak() - before < std::uint64_t{64} << 20);
    }

    TEST_CASE("what is not the format's JSON") {
        auto const a = described(R"("U8")", "[8]", "[0,8]");
        auto const body = a.substr(0, a.size() - 1);
        refuse({
            {a + "x", "only spaces may follow"},
            {a + "{}", "only spaces may follow the header's last brace, and here is '{'"},
            {a + std::string(1, '\0'), "here is byte 0x00"},
            {body, "'}' is wanted or ',' after a value, and here is the header's end"},
            {body + ",}", "'\"' is wanted where a name begins, and here is '}'"},
            {body + R"(,"b"})", "':' is wanted after a name"},
            {body + R"(,b:1})", "'\"' is wanted where a name begins, and here is 'b'"},
            {"{\"a", "ends inside a string"},
            {"{\"a\\", "no such escape: a backslash and the header's end"},
            {R"({"a":null})", "'{' is wanted where a tensor's description begins, and here is 'n'"},
            {R"({"a":["U8",[8],[0,8]]})", "'{' is wanted where a tensor's description begins"},
            {R"({"a":{}})", "tensor 'a': its description has no dtype"},
            {R"({"a":{"dtype":"U8","data_offsets":[0,8]}})", "no shape"},
            {R"({"a":{"dtype":"U8","shape":[8]}})", "no data_offsets"},
            {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8],"x":0}})", "no 'x'"},
            {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8],"shape":[8]}})", "duplicate key 'shape'"},
            {body + "," + a.substr(1), "duplicate key 'a': two tensors"},
            {body + R"(,"\u0061")" + a.substr(4), "duplicate key 'a'"},
            {R"({"__metadata__":{"k":1}})", "value of the metadata begins, which are all strings, and here is '1'"},
            {R"({"__metadata__":{"k":{}}})", "all strings, and here is '{'"},
            {R"({"__metadata__":null})", "where the metadata begin"},
            {R"({"__metadata__":{"k":"1","k":"1"}})", "duplicate key 'k' in the metadata"},
            {R"({"__metadata__":{},"__metadata__":{}})", "duplicate key '__metadata__'"},
        });
        refuse({
            {"{\"\n\":0}", "control characters must be escaped in a string, and here is byte 0x0a"},
            {R"({"\x":0})", "no such escape: a backslash and 'x'"},
            {R"({"\u12g4":0})", "4 hexadecimal digits are wanted after \\u, and here is 'g'"},
            {R"({"\ud83d":0})", "half of a surrogate pair"},
            {R"({"\ud83d\n":0})", "half of a surrogate pair"},
            {R"({"\ud83d\ud83d":0})", "half of a surrogate pair"},
            {R"({"\udea3\ud83d":0})", "half of a surrogate pair"},
            {R"({"\u123)", "4 hexadecimal digits"},
        });
    }

    TEST_CASE("text that is not UTF-8") {
        for (auto const* bad : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3\xC3", "\xE0\x9F\xBF",
                                "\xED\xA0\x80", "\xED\xBF\xBF", "\xE2\x82", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
                                "\xF5\x80\x80\x80", "\xF0\x9F\x9A", "\xFF"}) {
            refuse({{std::string("{\"") + bad + "\":0}", "must be UTF-8, and here is byte 0x"},
                    {std::string("{}") + bad, "must be UTF-8"}});
        }
        for (auto const* good : {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                                 "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
            refuse({{std::string("{\"") + good + "\":0}", std::string("tensor '") + (*good == 0x7F ? "?" : good)}});
        }
    }

    TEST_CASE("numbers, dtypes and shapes") {
        auto const u8 = [](std::string const& shape) { return described(R"("U8")", shape, "[0,8]"); };
        refuse({
            {u8("[-8]"), "negative"},
            {u8("[-0]"), "negative"},
            {u8("[8.0]"), "no fraction or exponent"},
            {u8("[8e0]"), "no fraction or exponent"},
            {u8("[8E0]"), "no fraction or exponent"},
            {u8("[08]"), "leading zero"},
            {u8("[+8]"), "a whole number is wanted, and here is '+'"},
            {u8("[\"8\"]"), "a whole number is wanted"},
            {u8("[8,]"), "a whole number is wanted, and here is ']'"},
            {u8("[8 8]"), "']' is wanted or ',' after a number"},
            {u8("8"), "'[' is wanted where a list of numbers begins"},
            {u8("[18446744073709551616]"), "2^64 or more"},
            {u8("[99999999999999999999999]"), "2^64 or more"},
            {u8("[18446744073709551615]"), "overflows"},
            {u8("[4294967296,4294967296]"), "overflows"},
            {u8("[4294967296,4294967297,8]"), "overflows"},
            {u8("[0,4294967296,4294967296]"), "overflows"}, // in which order one multiplies must not matter
            {u8("[4294967296,4294967296,0]"), "overflows"},
            {u8("[9]"), "U8 [9] takes 9 bytes, and its data_offsets say 8"},
            {u8("[]"), "U8 [] takes 1 bytes"},
            {u8("[0]"), "takes 0 bytes"},
            {u8("[1,1,1,1,1,1,1,1,1,1,1]"), "U8 [1, 1, 1, 1, 1, 1, 1, 1, ...]"},
            {described(R"("F64")", "[2305843009213693952]", "[0,0]"), "overflows"}, // 2^61 of 8 bytes: 0 in 64 bits
            {described(R"("F4")", "[15]", "[0,8]"), "F4 [15] ends within a byte"},
            {described(R"("f32")", "[2]", "[0,8]"), "no dtype 'f32'"},
            {described(R"("F128")", "[2]", "[0,8]"), "no dtype 'F128'"},
            {described(R"("")", "[2]", "[0,8]"), "no dtype ''"},
            {described("7", "[2]", "[0,8]"), "where the name of a dtype begins, and here is '7'"},
            {described(R"(["F32"])", "[2]", "[0,8]"), "where the name of a dtype begins, and here is '['"},
        });
    }

    TEST_CASE("offsets: reversed, beyond, overlapping, with holes, not covering") {
        auto const at = [](std::string const& offsets) { return described(R"("U8")", "[8]", offsets); };
        auto const two = [](std::string const& first, std::string const& second, int size) {
            auto const of = R"({"dtype":"U8","shape":[)" + std::to_string(size) + R"(],"data_offsets":)";
            return R"({"a":)" + of + first + R"(},"b":)" + of + second + "}}";
        };
        refuse({
            {at("[8,0]"), "tensor 'a': data_offsets [8, 0] are reversed"},
            {at("[18446744073709551615,7]"), "reversed"}, // as if it were [-1, 7]
            {at("[0,9]"), "data_offsets [0, 9] pass the 8 bytes"},
            {at("[18446744073709551607,18446744073709551615]"), "pass the 8 bytes"},
            {at("[-1,7]"), "negative"},
            {at("[0]"), "data_offsets are 2 numbers, not 1"},
            {at("[0,8,8]"), "data_offsets are 2 numbers, not 3"},
            {at("[]"), "data_offsets are 2 numbers, not 0"},
            {two("[0,8]", "[0,8]", 8), "overlap"},
            {two("[0,5]", "[3,8]", 5), "tensors overlap: 'b' begins at 3 of the data, and those before it end at 5"},
            {two("[3,8]", "[0,5]", 5), "tensors overlap: 'a' begins at 3"},
            {two("[0,3]", "[5,8]", 3), "a hole between tensors: 'b' begins at 5"},
            {two("[1,4]", "[4,7]", 3), "a hole between tensors: 'a' begins at 1"},
            {two("[0,3]", "[3,6]", 3), "trailing bytes: the tensors end at 6 of the data, which have 8 bytes"},
            {R"({})", "trailing bytes: the tensors end at 0"},
            {described(R"("U8")", "[0]", "[4,4]"), "a hole"}, // an empty tensor has its place, too
        });
        files::folder const folder;
        CHECK(complaint(folder, file_of(two("[4,8]", "[0,4]", 4), bytes(8))) == "accepted");
        CHECK(complaint(folder, file_of(two("[0,0]", "[0,0]", 0))) == "accepted");
    }

    TEST_CASE("depth costs nothing") {
        auto const deep = [](char bracket) { return std::string(4'000'000, bracket); };
        auto const before = files::address_space_peak();
        refuse({
            {deep('{'), "where a name begins, and here is '{'"},
            {"{\"a\":" + deep('['), "here is '['"},
            {described(R"("U8")", deep('['), "[0,8]"), "a whole number is wanted, and here is '['"},
            {R"({"a":{"dtype":{"a":{"a":{"a":0}}}}})", "here is '{'"},
            {R"({"__metadata__":)" + deep('['), "here is '['"},
        });
        CHECK(files::address_space_peak() - before < std::uint64_t{256} << 20);
    }

    TEST_CASE("a shape as long as the header takes memory in proportion to it") {
        files::folder const folder;
        std::string ones = "[1";
        for (int i = 0; i < 1'000'000; ++i) ones += ",1";
        auto const before = files::address_space_peak();
        CHECK(complaint(folder, file_of(described(R"("U8")", ones + "]", "[0,1]"), {9})) == "accepted");
        CHECK(files::address_space_peak() - before < std::uint64_t{128} << 20);
    }
}

} // namespace data_safetensors_header_test
