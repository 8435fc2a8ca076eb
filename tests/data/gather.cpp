// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/dataset.hpp>
#include <trireme/data/gather.hpp>
#include <trireme/data/samples_in_memory.hpp>

#include "files.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <type_traits>
#include <vector>

namespace data_gather_test {
namespace {

using trireme::sample_rows;

trireme::labelled_images make(std::size_t count, std::size_t height, std::size_t width) {
    auto labels = files::random_bytes(count, 2);
    return {files::random_bytes(count * height * width, 1), std::move(labels), height, width, 256};
}

/// Number i of a sample, by the definition.
template<class T>
T number(sample_rows const& rows, std::size_t sample, std::size_t i) {
    return trireme::with_number_of(rows.kind, [&]<class N>(N) {
        return static_cast<T>(reinterpret_cast<N const*>(rows.of(sample))[i]) * static_cast<T>(rows.scale);
    });
}

/// Compares with the definition, for every number of samples that a granule may have.
template<std::size_t Lanes, class T>
void check(sample_rows const& rows, std::size_t samples) {
    constexpr std::size_t guard = 64;
    for (std::size_t count = 1; count <= Lanes; ++count) {
        std::vector<std::uint32_t> indices(count);
        for (std::size_t k = 0; k < count; ++k) {
            indices[k] = static_cast<std::uint32_t>((k * 7 + count) % samples);
        }
        std::vector<T> out(rows.size() * Lanes + 2 * guard, T(-1));
        trireme::gather_samples<Lanes>(rows, indices, out.data() + guard);
        std::size_t wrong = 0;
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            auto const sample = indices[lane < count ? lane : count - 1];
            for (std::size_t i = 0; i < rows.size(); ++i) {
                wrong += out[guard + i * Lanes + lane] != number<T>(rows, sample, i);
            }
        }
        CHECK(wrong == 0);
        auto const untouched = [](T value) { return value == T(-1); };
        CHECK(std::all_of(out.begin(), out.begin() + guard, untouched));
        CHECK(std::all_of(out.end() - guard, out.end(), untouched));
    }
}

template<std::size_t... Lanes>
void check_all(trireme::labelled_images const& images) {
    (check<Lanes, float>(images.inputs(), images.size()), ...);
    (check<Lanes, double>(images.inputs(), images.size()), ...);
    (check<Lanes, int>(images.targets(), images.size()), ...);
}

template<class N>
void check_numbers() {
    CAPTURE(sizeof(N));
    std::vector<N> numbers(23 * 40);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<N>(i % 100) / static_cast<N>(3);
    std::vector<N> const targets(23 * 2, N(1));
    auto const s = trireme::samples_in_memory(numbers, trireme::make_shape(2, 20), targets, trireme::make_shape(2));
    check<16, float>(s.scaled(0.3).inputs(), s.size());
    check<4, double>(s.scaled(0.3).inputs(), s.size());
    check<1, float>(s.inputs(), s.size());
    check<8, int>(s.targets(), s.size());

    auto apart = s.inputs(); // rows that do not lie side by side: every second one
    apart.stride *= 2;
    check<16, float>(apart, 11);
    std::vector<double> last(40);
    trireme::gather_channels_last<float>(s.inputs(), 7, 2, last.data());
    for (std::size_t p = 0; p < 20; ++p)
        for (std::size_t c = 0; c < 2; ++c) CHECK(last[p * 2 + c] == number<float>(s.inputs(), 7, c * 20 + p));
}

} // namespace

TEST_SUITE("data/gather") {
    TEST_CASE("a granule holds the pixels and the labels of its images, lanes innermost, bit for bit") {
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

    TEST_CASE("numbers of every kind are gathered, from rows that need not lie side by side") {
        check_numbers<std::uint8_t>();
        check_numbers<std::uint16_t>();
        check_numbers<std::int8_t>();
        check_numbers<std::int16_t>();
        check_numbers<std::int32_t>();
        check_numbers<std::int64_t>();
        check_numbers<float>();
        check_numbers<double>();
    }

    TEST_CASE("a part of a set is gathered by its own indices") {
        auto const whole = make(40, 6, 6);
        check<16, float>(whole.take(11, 9).inputs(), 9);
        std::vector<float> from_part(16 * 36), from_whole(16 * 36);
        std::uint32_t const in_part[] = {0, 8}, in_whole[] = {11, 19};
        trireme::gather_samples<16>(whole.take(11, 9).inputs(), in_part, from_part.data());
        trireme::gather_samples<16>(whole.inputs(), in_whole, from_whole.data());
        CHECK((from_part == from_whole));
    }

    TEST_CASE("missing lanes repeat the last sample") {
        auto const images = make(5, 28, 28);
        std::vector<float> out(16 * 784);
        int labels[16] = {};
        std::uint32_t const indices[] = {4, 1, 3};
        trireme::gather_samples<16>(images.inputs(), indices, out.data());
        trireme::gather_samples<16>(images.targets(), indices, labels);
        for (std::size_t lane = 3; lane < 16; ++lane) {
            CHECK(labels[lane] == images.label(3));
            CHECK(out[783 * 16 + lane] == static_cast<float>(images.image(3)[783]) * (1.0f / 255));
        }
    }
}

} // namespace data_gather_test
