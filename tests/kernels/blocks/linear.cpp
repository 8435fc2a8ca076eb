// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/blocks/linear.hpp>
#include <trireme/kernels/reference/linear.hpp>

#include <kernels/blocks/rig.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace device_blocks_linear_test {
using namespace trireme;
using namespace blocks_test;

namespace {

template<class G, class T>
void blocks_equal_reference(std::size_t samples, std::size_t scratch = 1 << 20) {
    constexpr std::size_t in = G::inputs, out = G::outputs;
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(in);
    CAPTURE(out);
    CAPTURE(samples);
    CAPTURE(scratch);
    CAPTURE(sizeof(T));
    auto const x = uniform<T>(0, in * samples), w = uniform<T>(1, in * out), b = uniform<T>(2, out);
    constexpr auto if_biased = [](auto* p) { return G::bias ? p : nullptr; };
    auto const dy = uniform<T>(3, out * samples);
    auto const wx = wide(x), ww = wide(w), wb = wide(b), wdy = wide(dy);

    auto y = unset<T>(out * samples), dx = unset<T>(in * samples);
    CHECK(same_in_every_order(samples, 0, y, [&](rehearsal_kernels const& k) {
        linear_forward<G, 1>(k, x.data(), w.data(), if_biased(b.data()), y.data());
    }));
    CHECK(same_in_every_order(samples, 0, dx, [&](rehearsal_kernels const& k) {
        linear_backward_input<G, 1>(k, w.data(), dy.data(), dx.data());
    }));
    auto weights = uniform<T>(4, in * out + out);
    auto sums = wide(weights);
    CHECK(same_in_every_order(samples, scratch, weights, [&](rehearsal_kernels const& k) {
        linear_backward_weights<G, 1>(k, x.data(), dy.data(), weights.data(), if_biased(weights.data() + in * out));
    }));

    auto expected_y = wide(unset<T>(out * samples)), expected_dx = wide(unset<T>(in * samples));
    for (std::size_t n = 0; n < samples; ++n) {
        auto const* const xn = wx.data() + n * in;
        auto const* const dyn = wdy.data() + n * out;
        linear_forward<G, 1>(reference{}, xn, ww.data(), if_biased(wb.data()), expected_y.data() + n * out);
        linear_backward_input<G, 1>(reference{}, ww.data(), dyn, expected_dx.data() + n * in);
        linear_backward_weights<G, 1>(reference{}, xn, dyn, sums.data(), if_biased(sums.data() + in * out));
    }
    CHECK(apart(y, expected_y, in + 1) <= 1);
    CHECK(apart(dx, expected_dx, out) <= 1);
    CHECK(apart(weights, sums, samples + 1) <= 1);
}

} // namespace

TEST_SUITE("kernels/blocks/linear") {
    TEST_CASE("blocks equal the reference for LeNet's layers, and for the smallest") {
        for (std::size_t const samples : std::initializer_list<std::size_t>{1, 5, 33}) {
            blocks_equal_reference<linear_geometry<400, 120>, float>(samples);
            blocks_equal_reference<linear_geometry<120, 84>, float>(samples);
            blocks_equal_reference<linear_geometry<84, 10>, float>(samples);
            blocks_equal_reference<linear_geometry<1, 1>, float>(samples);
        }
    }

    TEST_CASE("blocks equal the reference for every type") {
        for (std::size_t const samples : std::initializer_list<std::size_t>{1, 2, 5, 33, 150}) {
            blocks_equal_reference<linear_geometry<33, 25>, float>(samples);
            blocks_equal_reference<linear_geometry<33, 25>, double>(samples);
            blocks_equal_reference<linear_geometry<32, 16>, bf16>(samples);
        }
        blocks_equal_reference<linear_geometry<200, 40>, double>(2);
        blocks_equal_reference<linear_geometry<130, 140>, bf16>(2);
    }

    TEST_CASE("many samples share few weights' sums through the workspace, if there is any") {
        for (std::size_t const scratch : std::initializer_list<std::size_t>{0, 90, 10000}) {
            blocks_equal_reference<linear_geometry<7, 3>, float>(1031, scratch);
            blocks_equal_reference<linear_geometry<5, 4>, double>(1601, scratch);
        }
        blocks_equal_reference<linear_geometry<7, 3>, float>(8000);
    }

    TEST_CASE("without a bias") {
        for (std::size_t const samples : std::initializer_list<std::size_t>{1, 33, 150}) {
            blocks_equal_reference<linear_geometry<33, 25, 1, false>, float>(samples);
            blocks_equal_reference<linear_geometry<32, 16, 1, false>, bf16>(samples);
        }
        blocks_equal_reference<linear_geometry<7, 3, 1, false>, double>(1031, 90); // through the workspace
        blocks_equal_reference<linear_geometry<7, 3, 1, false>, float>(8000);
    }

    TEST_CASE("a function after the layer, and its slope before the gradient") {
        using G = linear_geometry<30, 20>;
        using F = hyperbolic_tangent_function;
        constexpr std::size_t samples = 5;
        auto const x = uniform<double>(0, 30 * samples), w = uniform<double>(1, 30 * 20);
        auto const b = uniform<double>(2, 20), dy = uniform<double>(3, 20 * samples);
        std::vector<double> y(20 * samples), plain_y = y, base_y = y, dx(30 * samples), plain_dx = dx;
        rehearse(0, samples, 0, [&](rehearsal_kernels const& k) {
            with_function<rehearsal_kernels, F, double> const with(k, x.data());
            linear_forward<G, 1>(with, x.data(), w.data(), b.data(), y.data());
            using base = block_kernels<rehearsal::stream>; // rehearsal_kernels are derived from it: both must do
            linear_forward<G, 1>(with_function<base, F, double>(k), x.data(), w.data(), b.data(), base_y.data());
            linear_forward<G, 1>(with.without(), x.data(), w.data(), b.data(), plain_y.data());
            linear_backward_input<G, 1>(with, w.data(), dy.data(), dx.data());
            linear_backward_input<G, 1>(k, w.data(), dy.data(), plain_dx.data());
        });
        for (double& value : plain_y) value = F::value(value);
        for (std::size_t i = 0; i < dx.size(); ++i) plain_dx[i] *= F::slope(x[i], x[i]);
        CHECK(y == plain_y);
        CHECK(y == base_y);
        CHECK(dx == plain_dx);
    }
}

} // namespace device_blocks_linear_test
