// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/blocks/activation.hpp>
#include <trireme/kernels/blocks/activity_penalty.hpp>
#include <trireme/kernels/reference/activity_penalty.hpp>

#include <kernels/blocks/rig.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace kernels_blocks_activity_penalty_test {
using namespace trireme;
using namespace blocks_test;

namespace {

/// `Stored`: of activations; losses and weights are `T`.
template<std::size_t Size, class Stored, class T>
void blocks_equal_reference(std::size_t samples) {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(Size);
    CAPTURE(samples);
    CAPTURE(sizeof(Stored));
    CAPTURE(sizeof(T));
    auto const x = uniform<Stored>(0, Size * samples, 2), dy = uniform<Stored>(1, Size * samples);
    auto const weight = uniform<T>(2, samples);
    auto y = unset<Stored>(Size * samples), dx = y, unasked = y;
    auto losses = unset<T>(samples);
    auto const work = [&](rehearsal_kernels const& k) {
        activity_penalty_forward<Size, 1>(k, x.data(), T(0.25), y.data(), losses.data());
        activity_penalty_forward<Size, 1>(k, x.data(), T(0.25), unasked.data(), static_cast<T*>(nullptr));
        activity_penalty_backward_input<Size, 1>(k, x.data(), dy.data(), weight.data(), T(0.25), dx.data());
    };
    CHECK(same_in_every_order(samples, 0, losses, work));
    CHECK(same_in_every_order(samples, 0, dx, work));
    CHECK(wide(y) == wide(x));
    CHECK(wide(unasked) == wide(x));

    auto const wide_x = wide(x), wide_dy = wide(dy);
    auto const wide_weight = wide(weight);
    auto expected = wide(unset<Stored>(Size * samples)), same = expected;
    auto expected_losses = wide(unset<T>(samples));
    using number = typename decltype(expected)::value_type;
    for (std::size_t n = 0; n < samples; ++n) {
        auto const at = n * Size;
        activity_penalty_forward<Size, 1>(reference{}, wide_x.data() + at, number(0.25), same.data() + at,
                                          expected_losses.data() + n);
        activity_penalty_backward_input<Size, 1>(reference{}, wide_x.data() + at, wide_dy.data() + at,
                                                 wide_weight.data() + n, number(0.25), expected.data() + at);
    }
    CHECK(apart(dx, expected, 8) <= 1);
    CHECK(apart(losses, expected_losses, Size + 8) <= 1);
}

template<class Stored, class T>
void all_sizes() {
    for (std::size_t const samples : std::initializer_list<std::size_t>{1, 3, 33}) {
        blocks_equal_reference<1, Stored, T>(samples);
        blocks_equal_reference<10, Stored, T>(samples);
        blocks_equal_reference<600, Stored, T>(samples);
    }
}

} // namespace

TEST_SUITE("kernels/blocks/activity_penalty") {
    TEST_CASE("block programs equal the reference, in any order of blocks") {
        all_sizes<float, float>();
        all_sizes<double, double>();
        all_sizes<bf16, float>();
    }
}

} // namespace kernels_blocks_activity_penalty_test
