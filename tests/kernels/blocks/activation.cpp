// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/blocks/activation.hpp>
#include <trireme/kernels/reference/activation.hpp>

#include <kernels/blocks/rig.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace device_blocks_activation_test {
using namespace trireme;
using namespace blocks_test;

namespace {

template<class F, class T>
void blocks_equal_reference(std::size_t samples, std::size_t n) {
    CAPTURE(samples);
    CAPTURE(n);
    CAPTURE(sizeof(T));
    auto const x = uniform<T>(0, samples * n, 3), dy = uniform<T>(1, samples * n);
    auto const wx = wide(x), wdy = wide(dy);
    auto y = unset<T>(samples * n), dx = y;
    CHECK(same_in_every_order(samples, 0, y,
                              [&](rehearsal_kernels const& k) { activation_forward<F>(k, x.data(), y.data(), n); }));
    CHECK(same_in_every_order(samples, 0, dx, [&](rehearsal_kernels const& k) {
        activation_backward_input<F>(k, x.data(), y.data(), dy.data(), dx.data(), n);
    }));
    auto expected_y = wide(unset<T>(samples * n)), expected_dx = expected_y;
    activation_forward<F>(reference{}, wx.data(), expected_y.data(), samples * n);
    activation_backward_input<F>(reference{}, wx.data(), expected_y.data(), wdy.data(), expected_dx.data(),
                                 samples * n);
    CHECK(apart(y, expected_y, 1) <= 1);
    CHECK(apart(dx, expected_dx, 3) <= 1);

    auto in_place = x, gradient_in_place = dy; // y may be x, and dx may be dy
    rehearse(0, samples, 0, [&](rehearsal_kernels const& k) {
        activation_forward<F>(k, in_place.data(), in_place.data(), n);
        activation_backward_input<F>(k, x.data(), y.data(), gradient_in_place.data(), gradient_in_place.data(), n);
    });
    CHECK(in_place == y);
    CHECK(gradient_in_place == dx);
}

template<class T>
void all_functions() {
    for (std::size_t const samples : std::initializer_list<std::size_t>{1, 2, 5, 33}) {
        blocks_equal_reference<sigmoid_function, T>(samples, 7);
        blocks_equal_reference<hyperbolic_tangent_function, T>(samples, 84);
        blocks_equal_reference<relu_function, T>(samples, 256);
        blocks_equal_reference<gelu_function, T>(samples, 7);
        blocks_equal_reference<gelu_tanh_function, T>(samples, 84);
    }
}

} // namespace

TEST_SUITE("kernels/blocks/activation") {
    TEST_CASE("blocks equal the reference") {
        all_functions<float>();
        all_functions<double>();
        all_functions<bf16>();
    }

    TEST_CASE_TEMPLATE("a value that no kernel has written equals no result", T, float, double, bf16) {
        CHECK(apart(unset<T>(1), wide(std::vector<T>(1)), 1) > 1);
    }
}

} // namespace device_blocks_activation_test
