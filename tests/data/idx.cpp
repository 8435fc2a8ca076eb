// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/idx.hpp>

#include "files.hpp"

#include <doctest/doctest.h>
#include <support/seed.hpp>

#include <cstring>
#include <random>

namespace data_idx_test {
namespace {

using files::bytes;

bytes numbered(std::size_t count) {
    bytes content(count);
    for (std::size_t i = 0; i < count; ++i) content[i] = static_cast<std::uint8_t>(i * 37 + 11);
    return content;
}

bytes const pixels = numbered(3 * 4 * 5);
bytes const image_file = files::idx_images(3, 4, 5, pixels);
bytes const label_file = files::idx_labels(3, {2, 0, 9});

void read_images(std::string const& path) { trireme::read_idx_images(path); }
void read_labels(std::string const& path) { trireme::read_idx_labels(path, 10); }

void refuse_images(files::folder const& folder, bytes const& content, std::uint64_t offset, std::string const& words) {
    auto const path = folder.write("hostile", content);
    files::expect_data_error([&] { read_images(path); }, path, offset, words);
}

void refuse_labels(files::folder const& folder, bytes const& content, std::uint64_t offset, std::string const& words) {
    auto const path = folder.write("hostile", content);
    files::expect_data_error([&] { read_labels(path); }, path, offset, words);
}

} // namespace

TEST_SUITE("data/idx") {
    TEST_CASE("images and labels come back as they were written, plain and gzip") {
        files::folder const folder;
        for (auto const zip : {false, true}) {
            auto const images = folder.write("images", zip ? files::zipped(image_file) : image_file);
            auto const labels = folder.write("labels", zip ? files::zipped(label_file) : label_file);
            auto const content = trireme::read_idx_images(images);
            CHECK(content.count == 3);
            CHECK(content.height == 4);
            CHECK(content.width == 5);
            CHECK((content.pixels == pixels));
            CHECK((trireme::read_idx_labels(labels, 10) == bytes{2, 0, 9}));
            CHECK((trireme::read_idx_labels(labels, 10, 3) == bytes{2, 0, 9}));

            auto const both = trireme::read_idx(images, labels, 10, {4, 5});
            REQUIRE(both.size() == 3);
            CHECK(both.height() == 4);
            CHECK(both.width() == 5);
            CHECK(both.classes() == 10);
            CHECK(both.label(2) == 9);
            CHECK(std::memcmp(both.image(1).data(), pixels.data() + 20, 20) == 0);
        }
    }

    TEST_CASE("every truncation is an error at the byte where the content ends") {
        files::folder const folder;
        for (auto const* whole : {&image_file, &label_file}) {
            auto const read = whole == &image_file ? read_images : read_labels;
            auto const header = std::size_t{whole == &image_file ? 16u : 8u};
            for (std::size_t length = 0; length < whole->size(); ++length) {
                CAPTURE(length);
                auto const path = folder.write("cut", bytes(whole->begin(), whole->begin() + std::ptrdiff_t(length)));
                // A header is read word by word; a body that does not fit the file is refused before it is read.
                auto const at = std::min(length < header ? length : header, header);
                files::expect_data_error([&] { read(path); }, path, at, "truncated");
            }
            auto const packed = files::zipped(*whole);
            for (std::size_t length = 0; length < packed.size(); ++length) {
                CAPTURE(length);
                auto const path = folder.write("cut", bytes(packed.begin(), packed.begin() + std::ptrdiff_t(length)));
                CHECK_THROWS_AS(read(path), trireme::data_error);
            }
        }
    }

    TEST_CASE("trailing bytes") {
        files::folder const folder;
        refuse_images(folder, files::joined(image_file, {0}), 76, "more bytes follow the end of the pixels");
        refuse_labels(folder, files::joined(label_file, {0}), 11, "more bytes follow the end of the labels");
        refuse_images(folder, files::zipped(files::joined(image_file, {0})), 76, "more bytes follow");
        refuse_images(folder, files::joined(files::zipped(image_file), {0}), 76, "no gzip follow");
    }

    TEST_CASE("the magic number") {
        files::folder const folder;
        refuse_images(folder, label_file, 0, "swap the files of images and labels");
        refuse_labels(folder, image_file, 0, "swap the files of images and labels");
        refuse_images(folder, files::words({0x08030000, 1, 1, 1}), 0,
                      "begins with 0x00000803, and this one with 0x08030000");
        refuse_images(folder, files::words({0x00000d03, 1, 1, 1}), 0, "pass an IDX file of unsigned bytes"); // floats
        refuse_labels(folder, files::words({0x00000802, 1, 1}), 0, "begins with 0x00000801");
        refuse_images(folder, files::zipped(files::zipped(image_file)), 0, "begins with 0x00000803"); // packed twice
    }

    TEST_CASE("no dimension is 0") {
        files::folder const folder;
        refuse_images(folder, files::words({0x803, 0, 28, 28}), 4, "the number of images is 0");
        refuse_images(folder, files::words({0x803, 1, 0, 28}), 8, "the number of rows is 0");
        refuse_images(folder, files::words({0x803, 1, 28, 0}), 12, "the number of columns is 0");
        refuse_labels(folder, files::words({0x801, 0}), 4, "the number of labels is 0");
    }

    TEST_CASE("products of dimensions beyond 32 and 64 bits do not wrap around") {
        files::folder const folder;
        struct extents {
            std::uint32_t count, height, width;
        };
        extents const all[] = {
            {0x10000, 0x100, 0x100},              // 2^32: wraps to 0 in 32 bits
            {1, 0x10000, 0x10000},                // 2^32 in one image
            {0x10001, 0x10000, 1},                // 2^32 + 2^16
            {0x80000000, 0x80000000, 4},          // 2^64: wraps to 0 in 64 bits
            {0x40000000, 0x40000000, 0x10},       // 2^64 again
            {0x80000000, 0x80000001, 2},          // 2^63 + ... , wraps to 2^32 in 64 bits
            {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, // just below 2^96
            {0x10000, 0x10000, 0xFFFFFFFF},       // nearly 2^64
        };
        for (auto const& extent : all) {
            CAPTURE(extent.count);
            auto const content = files::idx_images(extent.count, extent.height, extent.width, numbered(64));
            auto const before = files::address_space_peak();
            refuse_images(folder, content, 16, "are promised");
            refuse_images(folder, files::zipped(content), 16, "are promised");
            CHECK(files::address_space_peak() - before < std::uint64_t{64} << 20);
        }
    }

    TEST_CASE("a header of 16 bytes that claims 4 GiB gets no memory") {
        files::folder const folder;
        auto const before = files::address_space_peak();
        auto const header = files::words({0x803, 0xFFFFFFFF, 1, 1});
        refuse_images(folder, header, 16, "4294967295 images of 1 x 1 are promised");
        refuse_images(folder, files::zipped(header), 16, "4294967295 images of 1 x 1 are promised");
        refuse_labels(folder, files::words({0x801, 0xFFFFFFFF}), 8, "4294967295 bytes of the labels are promised");
        CHECK(files::address_space_peak() - before < std::uint64_t{64} << 20);
    }

    TEST_CASE("the reader's own wishes come before memory is taken") {
        files::folder const folder;
        auto const path = folder.write("images", image_file);
        files::expect_data_error([&] { trireme::read_idx_images(path, {28, 5}); }, path, 8,
                                 "the number of rows is 4, and must be 28");
        files::expect_data_error([&] { trireme::read_idx_images(path, {4, 28}); }, path, 12,
                                 "the number of columns is 5, and must be 28");
        CHECK(trireme::read_idx_images(path, {4, 0}).count == 3);
    }

    TEST_CASE("a label out of range is named by its index") {
        files::folder const folder;
        refuse_labels(folder, files::idx_labels(4, {0, 9, 10, 11}), 10, "label 2 is 10, and labels lie in [0, 10)");
        refuse_labels(folder, files::zipped(files::idx_labels(1, {255})), 8, "label 0 is 255");
        auto const path = folder.write("labels", files::idx_labels(1, {255}));
        CHECK(trireme::read_idx_labels(path, 256).size() == 1);
        files::expect_usage_error([&] { trireme::read_idx_labels(path, 0); }, "1 to 256 classes, not 0");
        files::expect_usage_error([&] { trireme::read_idx_labels(path, 257); }, "1 to 256 classes, not 257");
    }

    TEST_CASE("images and labels must be equally many") {
        files::folder const folder;
        auto const images = folder.write("images", image_file);
        for (std::uint32_t const count : {1u, 2u, 4u}) {
            auto const labels = folder.write("labels", files::idx_labels(count, bytes(count)));
            files::expect_data_error([&] { trireme::read_idx(images, labels, 10); }, labels, 4,
                                     "there are " + std::to_string(count) + " labels for 3 images");
        }
    }

    TEST_CASE("folders and missing files") {
        files::folder const folder;
        files::expect_data_error([&] { read_images(folder.path()); }, folder.path(), 0, "this is a folder");
        files::expect_data_error([&] { read_labels(folder.path("none")); }, folder.path("none"), 0, "cannot be opened");
    }

    TEST_CASE("flipped bits in a gzip file are noticed or do not matter") {
        files::folder const folder;
        std::mt19937 random(test_seed());
        auto const content = numbered(20 * 9 * 7);
        auto const packed = files::zipped(files::idx_images(20, 9, 7, content));
        int noticed = 0;
        for (int i = 0; i < 2000; ++i) {
            auto damaged = packed;
            auto const flips = 1 + random() % 4;
            for (unsigned flip = 0; flip < flips; ++flip) {
                auto const bit = random() % (8 * damaged.size());
                damaged[bit / 8] = static_cast<std::uint8_t>(damaged[bit / 8] ^ (1u << bit % 8));
            }
            auto const path = folder.write("damaged", damaged);
            try {
                auto const images = trireme::read_idx_images(path);
                if (images.count != 20 || images.height != 9 || images.width != 7 || images.pixels != content) {
                    FAIL_CHECK("case ", i, " gave other content without an error");
                }
            } catch (trireme::data_error const&) {
                ++noticed;
            }
        }
        CHECK(noticed > 1500); // most bits do matter
    }

    TEST_CASE("flipped bits in a plain file never pass for more than the file holds") {
        files::folder const folder;
        for (std::size_t bit = 0; bit < 8 * 16; ++bit) { // each bit of the header
            auto damaged = image_file;
            damaged[bit / 8] = static_cast<std::uint8_t>(damaged[bit / 8] ^ (1u << bit % 8));
            auto const path = folder.write("damaged", damaged);
            CAPTURE(bit);
            CHECK_THROWS_AS(read_images(path), trireme::data_error);
        }
    }
}

} // namespace data_idx_test
