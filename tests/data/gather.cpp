// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/gather.hpp>

#include "files.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <type_traits>

namespace data_gather_test {
namespace {

trireme::labelled_images make(std::size_t count, std::size_t height, std::size_t width) {
    auto labels = files::random_bytes(count, 2);
    return {files::random_bytes(count * height * width, 1), std::move(labels), height, width, 256};
}

/// Compares with the definition, for every number of images that a granule may have.
template<std::size_t Lanes, class T, class Label>
void check(trireme::labelled_images const& images, T scale) {
    auto const values = images.values_per_image();
    constexpr std::size_t guard = 64;
    for (std::size_t count = 1; count <= Lanes; ++count) {
        std::vector<std::uint32_t> indices(count);
        for (std::size_t k = 0; k < count; ++k) {
            indices[k] = static_cast<std::uint32_t>((k * 7 + count) % images.size());
        }
        std::vector<T> out(values * Lanes + 2 * guard, T(-1));
        std::vector<Label> labels(Lanes + 2, Label{77});
        trireme::gather_images<Lanes>(images, indices, scale, out.data() + guard, labels.data() + 1);
        std::size_t wrong = 0;
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            auto const source = indices[lane < count ? lane : count - 1];
            wrong += labels[1 + lane] != Label{images.label(source)};
            for (std::size_t i = 0; i < values; ++i) {
                wrong += out[guard + i * Lanes + lane] != static_cast<T>(images.image(source)[i]) * scale;
            }
        }
        CHECK(wrong == 0);
        auto const untouched = [](T value) { return value == T(-1); };
        CHECK(std::all_of(out.begin(), out.begin() + guard, untouched));
        CHECK(std::all_of(out.end() - guard, out.end(), untouched));
        CHECK(labels.front() == Label{77});
        CHECK(labels.back() == Label{77});
    }
}

template<std::size_t... Lanes>
void check_all(trireme::labelled_images const& images) {
    (check<Lanes, float, std::uint8_t>(images, 1.0f / 255), ...);
    (check<Lanes, double, int>(images, 1.0 / 255), ...);
}

} // namespace

TEST_SUITE("data/gather") {
    TEST_CASE("a granule holds the pixels of its images, lanes innermost, bit for bit") {
        struct extents {
            std::size_t height, width;
        };
        // below one tile, whole tiles, tiles and a rest
        for (auto const& extent : {extents{1, 1}, {3, 5}, {4, 4}, {1, 17}, {5, 9}, {7, 13}, {28, 28}}) {
            CAPTURE(extent.height);
            CAPTURE(extent.width);
            check_all<1, 2, 3, 4, 7, 8, 12, 16, 24, 32>(make(23, extent.height, extent.width));
        }
    }

    TEST_CASE("a part of a set is gathered by its own indices") {
        auto const whole = make(40, 6, 6);
        check<16, float, int>(whole.take(11, 9), 0.5f);
        std::vector<float> from_part(16 * 36), from_whole(16 * 36);
        int labels[16] = {};
        std::uint32_t const in_part[] = {0, 8}, in_whole[] = {11, 19};
        trireme::gather_images<16>(whole.take(11, 9), in_part, 1.0f, from_part.data(), labels);
        trireme::gather_images<16>(whole, in_whole, 1.0f, from_whole.data(), labels);
        CHECK((from_part == from_whole));
    }

    TEST_CASE("missing lanes repeat the last image") {
        auto const images = make(5, 28, 28);
        std::vector<float> out(16 * 784);
        std::uint8_t labels[16] = {};
        std::uint32_t const indices[] = {4, 1, 3};
        trireme::gather_images<16>(images, indices, 1.0f, out.data(), labels);
        for (std::size_t lane = 3; lane < 16; ++lane) {
            CHECK(labels[lane] == images.label(3));
            CHECK(out[783 * 16 + lane] == images.image(3)[783]);
        }
    }
}

} // namespace data_gather_test
