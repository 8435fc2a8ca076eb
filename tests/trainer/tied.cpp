// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Rows that compute with the parameters of another row.

#include <doctest/doctest.h>
#include <support/arenas.hpp>
#include <support/compare.hpp>
#include <support/files.hpp>
#include <support/tying.hpp>

#include <trireme/layer/names.hpp>
#include <trireme/parallel/price.hpp>
#include <trireme/weights.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace trainer_tied_test {
using namespace trireme;
using namespace test_tying;
using test_networks::made_up;
using test_support::as_planned;

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
            CHECK(test_support::apart(weights, wanted) < 1e-12);
        }
    }

    TEST_CASE("tied rows have the bits of one device on any stages, and take the memory and the wire of the plan") {
        has_the_bits_of_one_device<host, first_and_last>({one_f_one_b{}, gpipe{}, zero_bubble_h1{}}, {1, 2}, {1, 2, 3},
                                                         as_planned);
        has_the_bits_of_one_device<host, first_and_last>({zero_bubble_v{}, interleaved<2>{}}, {1, 2}, {2}, as_planned);
        has_the_bits_of_one_device<host, several>({one_f_one_b{}, interleaved<2>{}, zero_bubble_v{}}, {1, 2}, {1, 2, 3},
                                                  as_planned);
        has_the_bits_of_one_device<host, often>({one_f_one_b{}, interleaved<2>{}}, {1, 2}, {1, 2, 5}, as_planned);
        has_the_bits_of_one_device<host, often, stages_by<cut_before<4>>>({gpipe{}}, {2}, {2}, as_planned);
        has_the_bits_of_one_device<host, often, stages_by<balanced_by_memory>>({gpipe{}}, {1}, {3}, as_planned);
        has_the_bits_of_one_device<host, several, accumulate<2>, recompute<all>>({one_f_one_b{}}, {1}, {1, 3},
                                                                                 as_planned);
    }

    TEST_CASE("rows of one stage that are tied to one row have one copy of its weights") {
        constexpr std::size_t matrix = 49 * 49 + 49;
        auto const plan_of = []<class Cut>(Cut) {
            using t = any_tied<host, often, Cut>;
            return t::plan({50}, t::layout_of({.batch = 50, .logical_shards = 8}, {.stages = 2, .schedule = gpipe{}}));
        };
        auto const together = plan_of(stages_by<cut_before<4>>{}), apart = plan_of(stages_by<cut_before<8>>{});
        CHECK(together.memory(1).parameters == (512 + round_up<std::size_t>(matrix, 16)) * sizeof(float));
        CHECK(together.tied(together.layout, 1, 0).bytes == matrix * sizeof(float)); // of three rows
        CHECK(together.tied(together.layout, 0, 1).bytes == 3 * matrix * sizeof(float));
        CHECK(apart.tied(apart.layout, 0, 1).bytes == matrix * sizeof(float));
    }

    TEST_CASE("what tied rows exchange has its price, and their memory counts in a cut") {
        auto const plan_of = []<class Network, class Cut>(pack<Network, Cut>) {
            using t = any_tied<host, Network, Cut>;
            return t::plan({48}, t::layout_of({.batch = 48}, {.stages = 2, .micro_batches = 2, .schedule = gpipe{}}));
        };
        using untied = network<input<1, 28, 28>, avg_pool2d<4>, flatten, linear<49>, hyperbolic_tangent, linear<49>,
                               sigmoid, linear<49>, hyperbolic_tangent, linear<49>, sigmoid, linear<10>>;
        using half = stages_by<cut_before<6>>;
        constexpr machine slow{{{1e-6, 1e-6, 0, 0}}}; // a microsecond for each byte
        auto const with = plan_of(pack<often, half>{}), without = plan_of(pack<untied, half>{});
        constexpr double matrix = (49 * 49 + 49) * 4e-6;
        CHECK(seconds_of(with, slow, 1e9).seconds - seconds_of(without, slow, 1e9).seconds ==
              doctest::Approx(2 * matrix + 2e-6));                           // two gradients
        constexpr auto middle = balanced_by_memory_of<1>::rows<often>(3, 1); // three gradients weigh as much as one row
        CHECK((middle.begin == 4 && middle.end == 8));
    }

    TEST_CASE("optimizers that keep numbers, models and files see what is tied once") {
        using adam_t = trainer<often, cross_entropy, adam, on<mesh<host, dp<dynamic>, pp<dynamic>>>,
                               reproducible<fixed_tree, 8>, clip_norm>;
        adam_t::options const o{.learning_rate = 0.01f, .max_norm = 0.1f, .batch = 40, .seed = 4};
        adam_t one(o), many(o, {.devices = 2, .stages = 3});
        for (std::size_t i = 0; i < 3; ++i) CHECK(one.step(made_up(40, i)).loss == many.step(made_up(40, i)).loss);
        CHECK(one.gather_parameters() == many.gather_parameters());

        files::folder const folder;
        auto const path = folder.path("often.safetensors");
        save_weights(many, path);
        adam_t other(o, {.stages = 2});
        load_weights(other, path);
        CHECK(other.gather_parameters() == one.gather_parameters());
        auto const asked = made_up(70, 9);
        auto const wanted = one.predict(asked);
        model<often, on<mesh<host, dp<2>>>, hold_weights<once>> m{{.batch = 40}};
        model<often, on<mesh<host, dp<2>, pp<3>>>> in_stages{{.batch = 40}};
        m.load_parameters(one.gather_parameters());
        in_stages.load_parameters(one.gather_parameters());
        for (auto const& said : {m.predict(asked), in_stages.predict(asked)}) // few samples may go other ways
            for (std::size_t i = 0; i < wanted.values().size(); ++i)
                CHECK(said.values()[i] == doctest::Approx(wanted.values()[i]).epsilon(1e-4));
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
