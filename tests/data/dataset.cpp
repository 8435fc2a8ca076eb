// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/dataset.hpp>

#include "files.hpp"

#include <doctest/doctest.h>

#include <optional>

namespace data_dataset_test {
namespace {

using files::bytes;

trireme::labelled_images make(std::size_t count = 6) {
    bytes pixels(count * 2 * 3), labels(count);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i);
    for (std::size_t i = 0; i < count; ++i) labels[i] = static_cast<std::uint8_t>(i % 4);
    return {std::move(pixels), std::move(labels), 2, 3, 4};
}

} // namespace

TEST_SUITE("data/dataset") {
    TEST_CASE("what goes in comes out") {
        auto const images = make();
        CHECK(images.size() == 6);
        CHECK(images.channels() == 1);
        CHECK(images.height() == 2);
        CHECK(images.width() == 3);
        CHECK(images.classes() == 4);
        CHECK(images.values_per_image() == 6);
        for (std::size_t i = 0; i < 6; ++i) {
            REQUIRE(images.image(i).size() == 6);
            CHECK(images.image(i)[0] == 6 * i);
            CHECK(images.image(i)[5] == 6 * i + 5);
            CHECK(images.label(i) == i % 4);
        }
        CHECK(trireme::labelled_images().size() == 0);
    }

    TEST_CASE("copies and parts share the storage and keep it alive") {
        std::optional<trireme::labelled_images> images = make();
        auto const copy = *images;
        auto const part = images->take(2, 3);
        CHECK(copy.image(0).data() == images->image(0).data());
        CHECK(part.image(0).data() == images->image(2).data());
        CHECK(copy.same_storage(*images));
        CHECK(part.same_storage(copy.take(2, 3)));
        CHECK_FALSE(part.same_storage(copy.take(1, 3)));
        CHECK_FALSE(part.same_storage(copy.take(2, 2)));
        CHECK_FALSE(copy.same_storage(make()));
        images.reset();
        CHECK(copy.image(5)[5] == 35);
        CHECK(part.size() == 3);
        CHECK(part.image(2)[0] == 24);
        CHECK(part.label(2) == 0);
        CHECK(part.take(1, 2).take(1, 1).image(0)[0] == 24);
    }

    TEST_CASE("a part lies in the whole") {
        auto const images = make();
        CHECK(images.take(6, 0).size() == 0);
        CHECK(images.take(0, 6).size() == 6);
        files::expect_usage_error([&] { images.take(0, 7); }, "not all in this set of 6");
        files::expect_usage_error([&] { images.take(7, 0); }, "not all in this set of 6");
        files::expect_usage_error([&] { images.take(3, ~std::size_t{0}); },
                                  "not all in this set of 6");                                        // 3 + count wraps
        files::expect_usage_error([&] { images.take(1, 5).take(0, 6); }, "not all in this set of 5"); // not the storage
    }

    TEST_CASE("sizes that do not fit together are refused") {
        using trireme::labelled_images;
        auto const refuse = [](std::size_t pixels, bytes labels, std::size_t height, std::size_t width,
                               std::size_t classes, std::string const& words) {
            files::expect_usage_error([&] { labelled_images(bytes(pixels), labels, height, width, classes); }, words);
        };
        refuse(11, {0, 0}, 2, 3, 1, "do not fit 11 bytes");
        refuse(13, {0, 0}, 2, 3, 1, "do not fit 13 bytes");
        refuse(0, {0, 0}, 2, 3, 1, "do not fit 0 bytes");
        refuse(12, {0, 0}, 3, 3, 1, "2 labels and images of 3 x 3");
        refuse(12, {0, 0}, 0, 3, 1, "none of the three 0");
        refuse(0, {0, 0}, 2, 0, 1, "none of the three 0");
        refuse(0, {}, 2, 3, 1, "at least one label");
        refuse(4, {0}, std::size_t{1} << 63, (std::size_t{1} << 33) + 4, 1, "do not fit 4 bytes"); // wraps
        refuse(2, {0, 4}, 1, 1, 4, "label 1 is 4, and labels lie in [0, 4)");
        refuse(1, {0}, 1, 1, 0, "1 to 256 classes, not 0");
        refuse(1, {0}, 1, 1, 257, "1 to 256 classes, not 257");
        CHECK(labelled_images(bytes(2), {0, 255}, 1, 1, 256).label(1) == 255);
    }
}

} // namespace data_dataset_test
