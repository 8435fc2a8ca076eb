// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/reference.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace layer_tokens_test {
using namespace trireme;

namespace {

template<class Layer, class Input>
void gradients_are_right() {
    auto const by_portable = check_gradients<Layer, Input>(3);
    auto const by_reference = check_gradients<Layer, Input, reference>(3);
    for (auto const& report : {by_portable, by_reference}) {
        CAPTURE(report.input_error);
        CAPTURE(report.parameter_error);
        CHECK(report.ok());
    }
}

/// Two tokens with a table of three rows.
using table = network<input<2>, embedding<3, 2>>;

} // namespace

TEST_SUITE("layer/tokens") {
    TEST_CASE("gradients equal numeric ones: layers of tokens, alone and in the block of a transformer") {
        gradients_are_right<learned_positions, input<3, 5>>();
        gradients_are_right<layer_norm, input<3, 18>>();
        gradients_are_right<rms_norm, input<3, 18>>();
        gradients_are_right<rms_norm_without_weight, input<2, 5>>();
        gradients_are_right<linear<7>, input<5, 6>>();
        gradients_are_right<linear<7, without_bias>, input<5, 6>>();
        gradients_are_right<attention<heads<1>>, input<5, 9>>();
        gradients_are_right<attention<heads<2>, causal>, input<6, 12>>();
        gradients_are_right<attention<heads<2>, dropout<percent<40>>, causal>, input<6, 12>>();
        gradients_are_right<attention<heads<1>, dropout<percent<10>>>, input<19, 6>>();
        gradients_are_right<residual<sequential<layer_norm, linear<12>, attention<heads<2>, causal>, linear<4>>>,
                            input<5, 4>>();
        gradients_are_right<residual<sequential<layer_norm, linear<12>, attention<heads<2>, dropout<percent<30>>>>>,
                            input<5, 4>>();
        gradients_are_right<residual<sequential<layer_norm, linear<8>, gelu_tanh, linear<4>>>, input<3, 4>>();
    }

    TEST_CASE("cross-entropy over tokens: gradients, and the mean over them") {
        CHECK(check_loss_gradients<cross_entropy, input<4, 6>>(3).ok());
        CHECK(check_loss_gradients<cross_entropy, input<4, 6>, reference>(3).ok());
        constexpr auto d = cross_entropy::describe(make_shape(4, 6));
        static_assert(d.classes == 6 && d.targets == make_shape(4));
        for (std::uint64_t const seed : {1u, 2u, 3u}) { // with other labels
            CAPTURE(seed);
            using loss = cross_entropy_with<ignoring<-1>, label_smoothing<percent<20>>>;
            CHECK(check_loss_gradients<loss, input<4, 6>>(seed).ok());
            CHECK(check_loss_gradients<loss, input<4, 6>, reference>(seed).ok());
            CHECK(check_loss_gradients<cross_entropy_with<>, input<4, 6>>(seed).ok());
        }
        constexpr auto with = cross_entropy_with<ignoring<-1>>::describe(make_shape(4, 6));
        static_assert(with.classes == 6 && with.targets == make_shape(4) && with.weighs_targets && with.flops == 192);
        static_assert(!cross_entropy_with<>::describe(make_shape(4, 6)).weighs_targets);
        static_assert(!cross_entropy_with<ignoring<5>>::describe(make_shape(4, 6)).accepts);
        static_assert(detail::goes_sample_by_sample<network<input<4, 6>, relu>, cross_entropy>);
        static_assert(!detail::goes_sample_by_sample<network<input<4, 6>, relu>, mean_squared_error>);
    }

    TEST_CASE("shapes, parameters and operations") {
        using net = network<input<8>, embedding<11, 6>, learned_positions, layer_norm, linear<18>,
                            attention<heads<3>, causal>, linear<11>>;
        static_assert(net::output_extents::shape == make_shape(8, 11));
        static_assert(net::parameters == 11 * 6 + 8 * 6 + 2 * 6 + (6 * 18 + 18) + (6 * 11 + 11));
        static_assert(net::row(3).description.forward_flops == 2 * 8 * 6 * 18);
        static_assert(net::row(4).description.forward_flops == 4 * (8 * 9 / 2) * 6); // pairs of tokens, masked ones not
        using normed = network<input<8, 6>, rms_norm, rms_norm_without_weight>;
        static_assert(normed::parameters == 6 && normed::row(0).description.parameters[0].init == initial::ones);
        static_assert(normed::row(0).description.forward_flops == normed::row(1).description.forward_flops + 8 * 6);
        using dropping = network<input<8, 18>, attention<heads<3>, causal, dropout<percent<10>>>>;
        static_assert(dropping::row(0).description.forward_flops == (4 * 6 + 3) * (8 * 9 / 2)); // a draw in each head
        static_assert(network<input<8, 6>, linear<18, without_bias>>::parameters == 6 * 18);
        static_assert(net::sample_by_sample);
        static_assert(!network<input<8>, linear<3>>::sample_by_sample);
    }

    TEST_CASE("positions are added where the tokens are, unless a residual reads these, too") {
        using net = network<input<8>, embedding<11, 6>, learned_positions, layer_norm, residual<learned_positions>>;
        constexpr auto plan = plan_activations<net>(1, 4);
        static_assert(plan.value[2] == plan.value[1] && plan.gradient[1] == plan.gradient[2]);
        static_assert(plan.value[5] != plan.value[3]); // what row 4 gives, and what the fork, row 3, takes
    }

    TEST_CASE("tied to an embedding: scores by the rows of its table, and no parameters of their own") {
        using tied_end = network<input<8>, embedding<11, 6>, layer_norm, tied<0>>;
        static_assert(tied_end::output_extents::shape == make_shape(8, 11));
        static_assert(tied_end::parameters == 11 * 6 + 2 * 6 && tied_end::tied_gradients == 11 * 6);
        static_assert(tied_end::row(2).description.forward_flops == 2 * 8 * 6 * 11);
        static_assert(network<input<8>, embedding<11, 6>, tied<0>, linear<6>, tied<0>>::valid); // twice
        using too_wide = decltype(detail::with_ties(pack<embedding<11, 6>, linear<7>, tied<0>>{}));
        static_assert(detail::chain<extents<8>, too_wide>::table.refused_at == 2);
        using end = gpt<gpt_sizes{.width = 12, .heads = 3, .context = 7, .vocabulary = 11, .tied = true}>;
        using own = gpt<gpt_sizes{.width = 12, .heads = 3, .context = 7, .vocabulary = 11}>;
        static_assert(end::parameters + 12 * 11 + 11 == own::parameters);
    }

    TEST_CASE("embedding looks up, and adds the gradients of a token that stands in several places") {
        using pass_type = host_pass<table, sample_by_sample<portable>, float>;
        std::vector<float> const w{0, 1, 10, 11, 20, 21};
        std::vector<float> dw(6), arena(pass_type::elements(pass_type::plan(2)));
        detail::model_numbers<float> const numbers{w.data(), dw.data()};
        auto const places = pass_type::plan(2);
        pass_type const pass(places, arena.data(), numbers, {.count = 2, .samples = 2, .batch = 2});
        float const tokens[2][2] = {{2, 0}, {2, 2}};
        pass.forward([&](std::size_t g) { std::copy_n(tokens[g], 2, pass.input(g)); });
        pass.backward([&](std::size_t g) { std::fill_n(pass.output_gradient(g), 4, 1.0f); });
        CHECK(dw == std::vector<float>{1, 1, 0, 0, 3, 3});
    }
}

} // namespace layer_tokens_test
