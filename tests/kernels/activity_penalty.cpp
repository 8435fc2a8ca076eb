// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable/activity_penalty.hpp>
#include <trireme/kernels/reference/activity_penalty.hpp>

#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

namespace kernels_activity_penalty_test {
using namespace trireme;

namespace {

template<std::size_t Size, std::size_t Lanes, class T>
void portable_equals_reference() {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(Size);
    CAPTURE(Lanes);
    CAPTURE(sizeof(T));
    auto const x = numbers::uniform<T>(0, Size * Lanes, 2), dy = numbers::uniform<T>(1, Size * Lanes);
    auto const weight = numbers::uniform<T>(2, Lanes);
    auto y = numbers::unset<T>(Size * Lanes), dx = y, expected_dx = y;
    auto loss = numbers::unset<T>(Lanes), expected_loss = loss;
    activity_penalty_forward<Size, Lanes>(portable{}, x.data(), T(0.25), y.data(), loss.data());
    CHECK(y == x);
    y = numbers::unset<T>(Size * Lanes);
    activity_penalty_forward<Size, Lanes>(reference{}, x.data(), T(0.25), y.data(), expected_loss.data());
    CHECK(y == x);
    CHECK(numbers::apart(loss, expected_loss, Size + 8) <= 1);
    activity_penalty_backward_input<Size, Lanes>(portable{}, x.data(), dy.data(), weight.data(), T(0.25), dx.data());
    activity_penalty_backward_input<Size, Lanes>(reference{}, x.data(), dy.data(), weight.data(), T(0.25),
                                                 expected_dx.data());
    CHECK(numbers::apart(dx, expected_dx, 8) <= 1);
    auto again = dy; // in its own place
    activity_penalty_backward_input<Size, Lanes>(portable{}, x.data(), again.data(), weight.data(), T(0.25),
                                                 again.data());
    CHECK(again == dx);
    y = numbers::unset<T>(Size * Lanes);
    activity_penalty_forward<Size, Lanes>(portable{}, x.data(), T(0.25), y.data(), static_cast<T*>(nullptr));
    CHECK(y == x);
}

template<class T>
void all_sizes() {
    portable_equals_reference<1, 1, T>();
    portable_equals_reference<17, 1, T>();
    portable_equals_reference<100, 1, T>();
    portable_equals_reference<1, 16, T>();
    portable_equals_reference<33, 16, T>();
    portable_equals_reference<5, 3, T>();
}

template<class Policy>
void by_hand() {
    // two values of two samples, lanes innermost; the second fills the granule
    std::vector<double> const x{3, 1, -1, 5}, dy{0.5, 0, 2, 0}, weight{0.5, 0};
    std::vector<double> y(4, 9.0), dx(4, 9.0), loss(2, 9.0);
    activity_penalty_forward<2, 2>(Policy{}, x.data(), 0.25, y.data(), loss.data());
    CHECK(y == x);
    CHECK(loss == std::vector<double>{0.25 * (9 + 1) / 2, 0.25 * (1 + 25) / 2});
    activity_penalty_backward_input<2, 2>(Policy{}, x.data(), dy.data(), weight.data(), 0.25, dx.data());
    CHECK(dx == std::vector<double>{0.5 + 0.5 * 0.25 * 3, 0, 2 - 0.5 * 0.25, 0});
}

} // namespace

TEST_SUITE("kernels/activity_penalty") {
    TEST_CASE("portable equals reference, lanes and few values included") {
        all_sizes<float>();
        all_sizes<double>();
    }
    TEST_CASE("a penalty and its slope by hand") {
        by_hand<portable>();
        by_hand<reference>();
    }
}

} // namespace kernels_activity_penalty_test
