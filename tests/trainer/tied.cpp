// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Rows that compute with the parameters of another row.

#include <doctest/doctest.h>
#include <support/allocation_hook.hpp>
#include <support/arenas.hpp>
#include <support/tying.hpp>

#include <trireme/layer/names.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace trainer_tied_test {
using namespace trireme;
using namespace test_tying;
using test_networks::made_up;

namespace {

/// What a trainer takes is in its plan, to the byte.
constexpr auto as_planned = [](auto const& make) {
    make([before = allocation_hook::aligned_to_line.load()](auto const& t) {
        CHECK(allocation_hook::aligned_to_line - before == test_support::arenas_of(t.plan()));
    });
};

} // namespace

TEST_SUITE("trainer/tied") {
    TEST_CASE("the gradient of what is tied is the sum of what each row alone would have") {
        using tied_net = network<input<1, 28, 28>, flatten, linear<20>, sigmoid, linear<20>, hyperbolic_tangent,
                                 tied<3>, sigmoid, linear<10>>;
        using apart_net = network<input<1, 28, 28>, flatten, linear<20>, sigmoid, linear<20>, hyperbolic_tangent,
                                  linear<20>, sigmoid, linear<10>>;
        static_assert(tied_net::parameters + 20 * 21 == apart_net::parameters);
        constexpr auto first = tied_net::row(3).first_parameter, second = apart_net::row(5).first_parameter;
        constexpr std::size_t shared = 20 * 21;

        trainer<tied_net, cross_entropy, sgd, precision<f64>> t{{.learning_rate = 0.5f, .batch = 32}};
        auto weights = t.gather_parameters();
        for (std::size_t step = 0; step < 3; ++step) {
            auto doubled = weights; // the untied one begins with the same weights in both rows
            doubled.insert(doubled.begin() + second, weights.begin() + first, weights.begin() + first + shared);
            trainer<apart_net, cross_entropy, sgd, precision<f64>> apart{{.learning_rate = 0.5f, .batch = 32}};
            apart.load_parameters(doubled);
            auto const samples = made_up(32, 1 + step);
            CHECK(t.step(samples).loss == doctest::Approx(apart.step(samples).loss).epsilon(1e-12));
            auto const trained = apart.gather_parameters();
            auto wanted = trained;
            for (std::size_t i = 0; i < shared; ++i)
                wanted[first + i] = weights[first + i] + (trained[first + i] - weights[first + i]) +
                                    (trained[second + i] - weights[first + i]);
            wanted.erase(wanted.begin() + second, wanted.begin() + second + shared);
            weights = t.gather_parameters();
            REQUIRE(weights.size() == wanted.size());
            for (std::size_t i = 0; i < weights.size(); ++i)
                CHECK(weights[i] == doctest::Approx(wanted[i]).epsilon(1e-12));
        }
    }

    TEST_CASE("tied rows have the bits of one device on any stages, and take the memory and the wire of the plan") {
        has_the_bits_of_one_device<host, first_and_last>({one_f_one_b{}, gpipe{}, zero_bubble_h1{}}, {1, 2}, {1, 2, 3},
                                                         as_planned);
        has_the_bits_of_one_device<host, first_and_last>({zero_bubble_v{}, interleaved<2>{}}, {1, 2}, {2}, as_planned);
        has_the_bits_of_one_device<host, several>({one_f_one_b{}, interleaved<2>{}, zero_bubble_v{}}, {1, 2}, {1, 2, 3},
                                                  as_planned);
        has_the_bits_of_one_device<host, several, accumulate<2>, recompute<all>>({one_f_one_b{}}, {1}, {1, 3},
                                                                                 as_planned);
    }

    TEST_CASE("on one role of a V both rows are there, and nothing is sent for them") {
        using trainer_t = any_tied<host, first_and_last>;
        using apart_t = any_tied<host, network<input<1, 28, 28>, avg_pool2d<4>, flatten, linear<49>, hyperbolic_tangent,
                                               linear<24>, relu, linear<49>, sigmoid, linear<49>>>;
        constexpr bytes_t gradient = (49 * 49 + 49) * sizeof(float);
        auto const wire = []<class T>(pack<T>, schedule_choice const& schedule) {
            return T::plan({50}, T::layout_of({.batch = 50, .logical_shards = 8}, {.stages = 2, .schedule = schedule}))
                .wire_bytes_per_step();
        };
        CHECK(wire(pack<trainer_t>{}, zero_bubble_v{}) == wire(pack<apart_t>{}, zero_bubble_v{}));
        CHECK(wire(pack<trainer_t>{}, one_f_one_b{}) == wire(pack<apart_t>{}, one_f_one_b{}) + 2 * gradient);
    }

    TEST_CASE("what is tied counts once in a norm, and its copies follow what is loaded") {
        using one_t = any_tied<host, first_and_last, clip_norm>;
        one_t::options const o{.learning_rate = 0.5f, .max_norm = 0.5f, .batch = 50, .seed = 3, .logical_shards = 8};
        one_t one(o), three(o, {.stages = 3});
        std::vector<float> weights(first_and_last::parameters);
        for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0.01f * static_cast<float>(i % 13) - 0.06f;
        one.load_parameters(weights);
        three.load_parameters(weights);
        CHECK(three.gather_parameters() == weights);
        for (std::size_t i = 0; i < 4; ++i) {
            auto const before = one.gather_parameters();
            auto const r = one.step(made_up(50, i)), r3 = three.step(made_up(50, i));
            CHECK(r.loss == r3.loss);
            CHECK(r.gradient_norm == r3.gradient_norm);
            CHECK(three.gather_parameters() == one.gather_parameters());
            if (i != 0) continue; // without momentum so far, the weights tell the gradient
            double squares = 0;
            auto const after = one.gather_parameters();
            for (std::size_t k = 0; k < after.size(); ++k)
                squares += std::pow((static_cast<double>(before[k]) - static_cast<double>(after[k])) / 0.5, 2);
            CHECK(std::sqrt(squares) == doctest::Approx(std::min(0.5, r.gradient_norm)).epsilon(1e-4));
        }
    }

    TEST_CASE("a loss that is not finite leaves all copies as they were") {
        using trainer_t = any_tied<host, first_and_last>;
        trainer_t t({.learning_rate = 0.5f, .batch = 50, .seed = 3, .logical_shards = 8}, {.stages = 3});
        auto weights = t.gather_parameters();
        auto broken = weights;
        broken[0] = NAN;
        t.load_parameters(broken);
        CHECK_THROWS_AS(t.step(made_up(50)), divergence_error);
        t.load_parameters(weights);
        trainer_t other({.learning_rate = 0.5f, .batch = 50, .seed = 3, .logical_shards = 8});
        CHECK(t.evaluate(made_up(50)).loss == other.evaluate(made_up(50)).loss);
    }

    TEST_CASE("a table of the network and its files have what is tied once") {
        auto const text = network_table<first_and_last>();
        CHECK(text.find("tied<2>") != std::string::npos);
        std::size_t elements = 0;
        for (auto const& t : tensors_of<first_and_last>()) elements += t.shape.size();
        CHECK(elements == first_and_last::parameters);
        CHECK(first_and_last::tied_gradients == 49 * 50);
        CHECK(tensors_of<first_and_last>().back().name == "6.bias");
        any_tied<host, first_and_last> t({.batch = 50, .logical_shards = 8}, {.stages = 3});
        std::size_t held = 0;
        for (int rank = 0; rank < 3; ++rank)
            t.for_each_piece(rank, [&](auto const& piece) { held += piece.values.size(); });
        CHECK(held == first_and_last::parameters);
    }
}

} // namespace trainer_tied_test
