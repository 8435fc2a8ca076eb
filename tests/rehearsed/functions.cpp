// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Functions that accelerators apply as a part of a layer's kernel, in rows and at the ends of repeats.

#include <rehearsed/trainings.hpp>
#include <support/networks.hpp>
#include <support/promises.hpp>

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>

namespace rehearsed_functions_test {
using namespace trireme;
using test_networks::conv3;
using test_networks::every_layer;

/// The first parameters are in a repeat.
using functions = network<input<1, 28, 28>, avg_pool2d<7>, repeat<2, relu, conv3<1>, sigmoid>, hyperbolic_tangent,
                          repeat<2, conv3<1>, relu>, gelu, dropout<percent<50>>, flatten, linear<12, without_bias>,
                          gelu_tanh, linear<10>>;

/// stream_context takes this for granted where a function is part of a layer's kernel.
template<class Network, class Chain = Network>
void fused_lie_in_place(activation_plan<Network::depth> const& plan) {
    detail::for_units<Chain>(0, [&]<class C, std::size_t Unit>(detail::unit<C, Unit>, std::size_t row) {
        constexpr auto const& fused = detail::fused_in<C, fusion::on_both_sides>;
        if (fused.applies_next[Unit]) CHECK(plan.value[row + 2] == plan.value[row + 1]);
        if (fused.applies_next[Unit] && plan.recomputed.twice[row] && plan.recomputed.twice[row + 1])
            CHECK(plan.again[row + 2] == plan.again[row + 1]);
        if (Unit > 0 && fused.takes_slope[Unit] && fused.open[Unit - 1] && row > Network::first_trainable)
            CHECK(plan.gradient[row - 1] == plan.gradient[row]);
    });
}

TEST_SUITE("rehearsed/functions") {
    TEST_CASE("losses and parameters are the host's, and what is dropped, in steps larger than the batch, too") {
        promises::as_in_the_reference<promises::on_rehearsal<f64>, promises::any_layout, functions>(
            {{1, 0, 12, {12, 9}}, {2, 5, 12, {12, 9}}, {2, 0, 7, {31, 7, 50}}, {2, 5, 7, {31, 7, 50}}});
    }

    TEST_CASE("a function that a layer applies lies where the layer's own result does") {
        for (std::size_t const samples : std::initializer_list<std::size_t>{1, 3, 64}) {
            fused_lie_in_place<every_layer>(plan_activations<every_layer>(samples, 4, weight_gradients::beside));
            fused_lie_in_place<functions>(plan_activations<functions>(samples, 4, weight_gradients::beside));
            for (auto const when : {weight_gradients::beside, weight_gradients::apart})
                fused_lie_in_place<every_layer>(plan_activations<every_layer>(
                    samples, 4, when, way_of_samples::together, {0, every_layer::depth}, samples, false,
                    detail::stretches<detail::whole_stages<every_layer>>.rows()));
        }
    }
}

} // namespace rehearsed_functions_test
