// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable/dropout.hpp>
#include <trireme/kernels/reference/dropout.hpp>

#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace device_dropout_test {
using namespace trireme;

namespace {

constexpr std::uint32_t half = std::uint32_t{1} << 31;

/// Step, layer and shard decide what is drawn.
struct drawn {
    std::uint64_t step = 3;
    std::uint32_t layer = 5, shard = 7;
    template<class T>
    dropout_draw<T> of(std::size_t first, std::uint32_t threshold, T scale) const {
        return {{.seed = numbers::seed(), .step = step, .shard = shard, .first = first}, layer, threshold, scale};
    }
};

template<std::size_t Size, std::size_t Lanes, class T>
void portable_equals_reference(std::size_t first, std::uint32_t threshold) {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(Size);
    CAPTURE(Lanes);
    CAPTURE(first);
    CAPTURE(threshold);
    CAPTURE(sizeof(T));
    constexpr auto n = Size * Lanes;
    auto const x = numbers::uniform<T>(0, n);
    auto y = numbers::unset<T>(n), expected = y;
    auto const draw = drawn{}.of(first, threshold, T(1.25));
    dropout_forward<Size, Lanes>(portable{}, x.data(), draw, y.data());
    dropout_forward<Size, Lanes>(reference{}, x.data(), draw, expected.data());
    CHECK(y == expected);
    auto in_place = x;
    dropout_forward<Size, Lanes>(portable{}, in_place.data(), draw, in_place.data());
    CHECK(in_place == y);

    // a sample's values are the same in any granule
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        std::vector<T> one(Size);
        for (std::size_t i = 0; i < Size; ++i) one[i] = x[i * Lanes + lane];
        dropout_forward<Size, 1>(portable{}, one.data(), drawn{}.of(first + lane, threshold, T(1.25)), one.data());
        bool equal = true;
        for (std::size_t i = 0; i < Size; ++i) equal = equal && one[i] == y[i * Lanes + lane];
        CHECK(equal);
    }
}

template<std::size_t Size, std::size_t Lanes>
void all_of() {
    for (std::size_t const first : {0u, 16u, 29u})
        for (auto const threshold : {half, half / 5, std::uint32_t{0}}) {
            portable_equals_reference<Size, Lanes, float>(first, threshold);
            portable_equals_reference<Size, Lanes, double>(first, threshold);
        }
}

/// Dropout keeps these of 4096 ones.
std::vector<float> kept(drawn const& by, std::uint32_t threshold = half) {
    std::vector<float> y(4096, 1.0f);
    dropout_forward<256, 16>(portable{}, y.data(), by.of(0, threshold, 1.0f), y.data());
    return y;
}

std::size_t equal_places(std::vector<float> const& a, std::vector<float> const& b) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < a.size(); ++i) n += a[i] == b[i] ? 1 : 0;
    return n;
}

} // namespace

TEST_SUITE("kernels/dropout") {
    TEST_CASE("portable equals reference for any size and number of lanes, whatever the granule begins with") {
        all_of<1, 1>();
        all_of<3, 4>(); // samples begin in the middle of four numbers
        all_of<4, 4>();
        all_of<10, 6>();
        all_of<85, 16>();
        all_of<7, 8>();
        all_of<1300, 1>();
    }

    TEST_CASE("as many are dropped as wanted, none at a threshold of zero") {
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        for (double const rate : {0.0, 0.1, 0.5, 0.9}) {
            CAPTURE(rate);
            auto const y = kept(drawn{}, static_cast<std::uint32_t>(rate * 4294967296.0));
            auto const zeros = static_cast<double>(std::count(y.begin(), y.end(), 0.0f));
            CHECK(std::abs(zeros - rate * 4096) <= 7 * std::sqrt(rate * (1 - rate) * 4096)); // 7 deviations
        }
    }

    TEST_CASE("steps, layers and shards drop other values, the same ones the same") {
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        auto const y = kept(drawn{});
        CHECK(kept(drawn{}) == y);
        for (auto const& other : {drawn{4}, drawn{3, 6}, drawn{3, 5, 8}}) {
            auto const equal = equal_places(kept(other), y); // by chance one half
            CHECK(equal > 2048 - 7 * 32);
            CHECK(equal < 2048 + 7 * 32);
        }
    }
}

} // namespace device_dropout_test
