// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/gzip.hpp>

#include "files.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>

namespace data_gzip_test {
namespace {

using files::bytes;

/// The whole content, which must be `count` bytes.
bytes content_of(std::string const& path, std::uint64_t count) {
    trireme::gzip_file file(path);
    auto content = file.read(count, "the test");
    file.expect_end("the test");
    return content;
}

} // namespace

TEST_SUITE("data/gzip") {
    TEST_CASE("plain and gzip give the same bytes, in one piece and in many") {
        files::folder const folder;
        for (std::size_t const size : {1u, 2u, 3u, 1000u, 65535u, 65536u, 65537u, 3000000u}) {
            CAPTURE(size);
            auto const content = files::random_bytes(size, 7);
            auto const plain = folder.write("plain", content);
            auto const packed = folder.write("packed", files::zipped(content));
            auto const stored = folder.write("stored", files::zipped(content, 0));
            CHECK((content_of(plain, size) == content));
            CHECK((content_of(packed, size) == content));
            CHECK((content_of(stored, size) == content));

            trireme::gzip_file file(packed);
            bytes pieces(size);
            for (std::size_t at = 0; at < size;) {
                auto const length = std::min<std::size_t>(size - at, at % 977 + 1);
                file.read(std::span(pieces).subspan(at, length), "a piece");
                at += length;
                if (file.offset() != at) FAIL("offset ", file.offset(), " after ", at, " bytes");
            }
            file.expect_end("the pieces");
            CHECK((pieces == content));
        }
    }

    TEST_CASE("a gzip file may have several members, also empty ones") {
        files::folder const folder;
        auto const first = files::random_bytes(70000, 1);
        auto const second = files::random_bytes(5, 2);
        auto const path =
            folder.write("members", files::joined(files::joined(files::zipped(first), files::zipped({})),
                                                  files::joined(files::zipped(second), files::zipped({}))));
        CHECK((content_of(path, 70005) == files::joined(first, second)));
    }

    TEST_CASE("an empty file, plain or gzip, ends at byte 0") {
        files::folder const folder;
        for (auto const& path : {folder.write("plain", {}), folder.write("packed", files::zipped({}))}) {
            trireme::gzip_file file(path);
            file.expect_end("nothing");
            CHECK(file.offset() == 0);
            bytes one(1);
            files::expect_data_error([&] { file.read(std::span(one), "the byte"); }, path, 0, "end of the byte");
        }
    }

    TEST_CASE("the end: bytes that follow") {
        files::folder const folder;
        auto const content = files::random_bytes(100, 3);
        auto const plain = folder.write("plain", content);
        files::expect_data_error([&] { content_of(plain, 99); }, plain, 99, "more bytes follow the end of the test");
        auto const packed = folder.write("packed", files::zipped(content));
        files::expect_data_error([&] { content_of(packed, 99); }, packed, 99, "more bytes follow the end of the test");
        // gzread, which passes over such bytes in silence, would fail here
        for (auto const tail : {0x00, 0x1f, 0xff}) {
            CAPTURE(tail);
            auto const path =
                folder.write("tail", files::joined(files::zipped(content), {static_cast<std::uint8_t>(tail), 7, 7}));
            CHECK_THROWS_AS(content_of(path, 100), trireme::data_error);
        }
        auto const zero = folder.write("zero", files::joined(files::zipped(content), {0}));
        files::expect_data_error([&] { content_of(zero, 100); }, zero, 100, "no gzip follow the gzip stream");
        auto const between = files::joined(files::joined(files::zipped(content), {0}), files::zipped(content));
        auto const path = folder.write("between", between);
        files::expect_data_error([&] { content_of(path, 200); }, path, 100, "no gzip follow the gzip stream");
        auto const cut = folder.write("cut", files::joined(files::zipped(content), {0x1f}));
        files::expect_data_error([&] { content_of(cut, 100); }, cut, 100, "the gzip stream ends early");
    }

    TEST_CASE("the end: every truncation") {
        files::folder const folder;
        auto const content = files::random_bytes(40, 4);
        auto const packed = files::zipped(content);
        for (std::size_t length = 0; length < content.size(); ++length) {
            CAPTURE(length);
            auto const path = folder.write("plain", bytes(content.begin(), content.begin() + std::ptrdiff_t(length)));
            CHECK_THROWS_AS(content_of(path, 40), trireme::data_error);
        }
        for (std::size_t length = 0; length < packed.size(); ++length) {
            CAPTURE(length);
            auto const path = folder.write("packed", bytes(packed.begin(), packed.begin() + std::ptrdiff_t(length)));
            CHECK_THROWS_AS(content_of(path, 40), trireme::data_error);
        }
        auto const magic = folder.write("magic", {0x1f, 0x8b}); // gzip, and no more than that
        files::expect_data_error([&] { content_of(magic, 2); }, magic, 0, "the gzip stream ends early");
        auto const path = folder.write("short", bytes(packed.begin(), packed.end() - 1));
        files::expect_data_error([&] { content_of(path, 40); }, path, 40, "the gzip stream ends early");
    }

    TEST_CASE("gzip's checksum and length are checked") {
        files::folder const folder;
        auto const packed = files::zipped(files::random_bytes(40, 5));
        auto checksum = packed, length = packed;
        checksum[packed.size() - 8] ^= 1;
        length[packed.size() - 4] ^= 1;
        auto const first = folder.write("checksum", checksum);
        files::expect_data_error([&] { content_of(first, 40); }, first, 40, "incorrect data check");
        auto const second = folder.write("length", length);
        files::expect_data_error([&] { content_of(second, 40); }, second, 40, "incorrect length check");
    }

    TEST_CASE("only regular files that can be opened") {
        files::folder const folder;
        auto const open = [](std::string const& path) { return [path] { trireme::gzip_file file(path); }; };
        files::expect_data_error(open(folder.path()), folder.path(), 0, "this is a folder");
        files::expect_data_error(open(folder.path("none")), folder.path("none"), 0, "No such file");
        files::expect_data_error(open("/dev/zero"), "/dev/zero", 0, "a device or socket");
        auto const pipe = folder.path("pipe");
        REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
        files::expect_data_error(open(pipe), pipe, 0, "this is a pipe"); // and does not wait for a writer
    }

    TEST_CASE("a promise that the file's size rules out is refused before memory is taken") {
        files::folder const folder;
        auto const huge = std::uint64_t{1} << 36;
        auto const content = files::random_bytes(100, 6);
        for (auto const& path : {folder.write("plain", content), folder.write("packed", files::zipped(content))}) {
            auto const before = files::address_space_peak();
            files::expect_data_error([&] { content_of(path, huge); }, path, 0, "68719476736 bytes of the test");
            files::expect_data_error([&] { content_of(path, ~std::uint64_t{0}); }, path, 0, "are promised");
            CHECK(files::address_space_peak() - before < std::uint64_t{64} << 20);
        }
        auto const plain = folder.path("plain");
        trireme::gzip_file file(plain);
        CHECK(file.most_left() == 100);
        CHECK_THROWS_AS(file.read(std::uint64_t{101}, "one too many"), trireme::data_error);
        CHECK(file.read(std::uint64_t{60}, "some").size() == 60);
        CHECK(file.most_left() == 40);
    }

    TEST_CASE("a promise that the size allows and the stream breaks costs what the stream decodes to") {
        files::folder const folder;
        // 4 MiB on disk may decode to 4 GiB, and this one decodes to 4 MiB.
        auto const path = folder.write("packed", files::zipped(files::random_bytes(4u << 20, 8), 0));
        auto const before = files::address_space_peak();
        files::expect_data_error([&] { content_of(path, std::uint64_t{4} << 30); }, path, 4u << 20, "ends 4290772992");
        CHECK(files::address_space_peak() - before < std::uint64_t{128} << 20);
    }

    TEST_CASE("a bomb is read up to the promise and one byte") {
        files::folder const folder;
        bytes bomb;
        auto const mebibytes = files::zipped(bytes(64u << 20));                         // 64 KiB on disk
        for (int i = 0; i < 256; ++i) bomb = files::joined(std::move(bomb), mebibytes); // 16 GiB
        auto const path = folder.write("bomb", bomb);
        auto const before = files::address_space_peak();
        files::expect_data_error([&] { content_of(path, 784); }, path, 784, "more bytes follow");
        CHECK(files::address_space_peak() - before < std::uint64_t{64} << 20);
    }

    TEST_CASE("no stream is denser than the bound that most_left() states") {
        files::folder const folder;
        auto const size = std::size_t{64} << 20;
        auto const packed = files::zipped(bytes(size), 9);
        auto const path = folder.write("dense", packed);
        trireme::gzip_file file(path);
        CHECK(file.most_left() >= size);
        CHECK(file.most_left() < size + (size >> 6)); // deflate comes that close
        CHECK((file.read(size, "the zeros") == bytes(size)));
    }
}

} // namespace data_gzip_test
