// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/core/errors.hpp>
#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/blocks/conv2d.hpp>
#include <trireme/kernels/reference/conv2d.hpp>

#include <kernels/blocks/rig.hpp>
#include <kernels/cases.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace device_blocks_conv2d_test {
using namespace trireme;
using namespace blocks_test;
using kernel_cases::sizes;

namespace {

template<class G, class T>
void blocks_equal_reference(std::size_t samples, std::size_t scratch = 1 << 20) {
    using size = sizes<G>;
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(kernel_cases::text_of_conv2d<G>());
    CAPTURE(samples);
    CAPTURE(scratch);
    CAPTURE(sizeof(T));
    auto const x = uniform<T>(0, size::x * samples), w = uniform<T>(1, size::w), b = uniform<T>(2, size::b);
    auto const dy = uniform<T>(3, size::y * samples);
    auto const wx = wide(x), ww = wide(w), wb = wide(b), wdy = wide(dy);

    auto y = unset<T>(size::y * samples), dx = unset<T>(size::x * samples);
    CHECK(same_in_every_order(samples, 0, y, [&](rehearsal_kernels const& k) {
        conv2d_forward<G, 1>(k, x.data(), w.data(), b.data(), y.data());
    }));
    CHECK(same_in_every_order(samples, 0, dx, [&](rehearsal_kernels const& k) {
        conv2d_backward_input<G, 1>(k, w.data(), dy.data(), dx.data());
    }));
    auto weights = uniform<T>(4, size::w + size::b);
    auto sums = wide(weights);
    CHECK(same_in_every_order(samples, scratch, weights, [&](rehearsal_kernels const& k) {
        conv2d_backward_weights<G, 1>(k, x.data(), dy.data(), weights.data(), weights.data() + size::w);
    }));

    auto expected_y = wide(unset<T>(size::y * samples)), expected_dx = wide(unset<T>(size::x * samples));
    for (std::size_t n = 0; n < samples; ++n) {
        auto const* const xn = wx.data() + n * size::x;
        auto const* const dyn = wdy.data() + n * size::y;
        conv2d_forward<G, 1>(reference{}, xn, ww.data(), wb.data(), expected_y.data() + n * size::y);
        conv2d_backward_input<G, 1>(reference{}, ww.data(), dyn, expected_dx.data() + n * size::x);
        conv2d_backward_weights<G, 1>(reference{}, xn, dyn, sums.data(), sums.data() + size::w);
    }
    CHECK(apart(y, expected_y, size::taps + 1) <= 1);
    CHECK(apart(dx, expected_dx, G::out_channels * G::kernel * G::kernel) <= 1);
    CHECK(apart(weights, sums, samples * G::out_height * G::out_width + 1) <= 1);
}

using first_of_lenet = conv2d_geometry<1, 28, 28, 6, 5, 2, 1>;
using second_of_lenet = conv2d_geometry<6, 14, 14, 16, 5, 0, 1>;
using third_of_lenet = conv2d_geometry<16, 5, 5, 120, 5, 0, 1>; // kernel = image

} // namespace

TEST_SUITE("kernels/blocks/conv2d") {
    TEST_CASE("blocks equal the reference for LeNet's convolutions") {
        for (std::size_t const samples : std::initializer_list<std::size_t>{1, 5, 33}) {
            blocks_equal_reference<first_of_lenet, float>(samples);
            blocks_equal_reference<second_of_lenet, float>(samples);
        }
        blocks_equal_reference<first_of_lenet, double>(2);
        blocks_equal_reference<second_of_lenet, double>(2);
        blocks_equal_reference<first_of_lenet, bf16>(2);
        blocks_equal_reference<second_of_lenet, bf16>(2);
        blocks_equal_reference<third_of_lenet, float>(2);
    }

    TEST_CASE("blocks equal the reference for strides and paddings") {
        for (std::size_t const samples : std::initializer_list<std::size_t>{1, 2, 5, 33}) {
            blocks_equal_reference<conv2d_geometry<2, 9, 6, 3, 3, 1, 2>, float>(samples);
            blocks_equal_reference<conv2d_geometry<3, 7, 9, 5, 3, 1, 1>, double>(samples);
        }
        blocks_equal_reference<conv2d_geometry<2, 9, 6, 3, 3, 1, 2>, bf16>(3);
        blocks_equal_reference<conv2d_geometry<1, 5, 5, 4, 5, 0, 1>, float>(2);     // kernel = image
        blocks_equal_reference<conv2d_geometry<4, 3, 3, 2, 1, 0, 1>, float>(5);     // 1 x 1
        blocks_equal_reference<conv2d_geometry<2, 4, 5, 7, 4, 3, 1>, float>(2);     // padding K - 1
        blocks_equal_reference<conv2d_geometry<1, 6, 5, 2, 2, 3, 1>, float>(2);     // outputs that see no input
        blocks_equal_reference<conv2d_geometry<2, 8, 7, 3, 2, 0, 3>, float>(2);     // inputs that no output sees
        blocks_equal_reference<conv2d_geometry<3, 11, 10, 13, 7, 3, 2>, double>(2); // a large kernel
        blocks_equal_reference<conv2d_geometry<2, 1, 1, 3, 3, 1, 1>, float>(2);     // kernel larger than the image
        blocks_equal_reference<conv2d_geometry<2, 1, 13, 25, 1, 0, 4>, float>(2);   // stride larger than the height
        blocks_equal_reference<conv2d_geometry<1, 2, 2, 1, 2, 3, 5>, float>(2);     // mostly padding
    }

    TEST_CASE("blocks equal the reference where images and weights do not fit into a tile") {
        blocks_equal_reference<conv2d_geometry<40, 9, 9, 24, 3, 1, 1>, float>(2);   // chunks of channels
        blocks_equal_reference<conv2d_geometry<70, 4, 4, 33, 3, 1, 2>, double>(2);  // tiles of weights
        blocks_equal_reference<conv2d_geometry<3, 35, 150, 5, 3, 1, 1>, float>(1);  // tiles of rows and columns
        blocks_equal_reference<conv2d_geometry<2, 21, 23, 3, 11, 5, 1>, float>(2);  // a row of the kernel in pieces
        blocks_equal_reference<conv2d_geometry<1, 68, 66, 3, 64, 0, 1>, float>(1);  // a kernel that does not fit
        blocks_equal_reference<conv2d_geometry<1, 60, 300, 3, 2, 0, 40>, float>(1); // rows that are far apart
    }

    TEST_CASE("the sums of weights' gradients go through as much workspace as there is") {
        using G = conv2d_geometry<3, 7, 9, 5, 3, 1, 1>;
        constexpr std::size_t partial = blocks::conv2d_weights_program<G, float>::bytes_of_partial;
        CHECK(partial == (5 * 3 * 9 + 5) * sizeof(float));
        for (std::size_t const partials : std::initializer_list<std::size_t>{1, 2, 7, 100})
            blocks_equal_reference<G, float>(33, partials * partial + 3);
        std::vector<float> numbers(1000);
        rehearse(0, 3, partial - 1, [&](rehearsal_kernels const& k) {
            CHECK_THROWS_WITH_AS(
                (conv2d_backward_weights<G, 1>(k, numbers.data(), numbers.data(), numbers.data(), numbers.data())),
                doctest::Contains("560 bytes of workspace"), usage_error);
        });
    }

    TEST_CASE("a function after the convolution, and its slope before the gradient") {
        using G = second_of_lenet;
        using F = hyperbolic_tangent_function;
        using size = sizes<G>;
        constexpr std::size_t samples = 3;
        auto const x = uniform<double>(0, size::x * samples), w = uniform<double>(1, size::w);
        auto const b = uniform<double>(2, size::b), dy = uniform<double>(3, size::y * samples);
        std::vector<double> y(size::y * samples), plain_y = y, dx(size::x * samples), plain_dx = dx;
        rehearse(0, samples, 0, [&](rehearsal_kernels const& k) {
            with_function<rehearsal_kernels, F, double> const with(k, x.data());
            conv2d_forward<G, 1>(with, x.data(), w.data(), b.data(), y.data());
            conv2d_forward<G, 1>(with.without(), x.data(), w.data(), b.data(), plain_y.data());
            conv2d_backward_input<G, 1>(with, w.data(), dy.data(), dx.data());
            conv2d_backward_input<G, 1>(k, w.data(), dy.data(), plain_dx.data());
        });
        for (double& value : plain_y) value = F::value(value);
        for (std::size_t i = 0; i < dx.size(); ++i) plain_dx[i] *= F::slope(x[i], x[i]);
        CHECK(y == plain_y);
        CHECK(dx == plain_dx);
    }
}

} // namespace device_blocks_conv2d_test
