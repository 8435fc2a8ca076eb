// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Residuals, repeats, batch norm and dropout on accelerators, rehearsed on the host, beside the host's own training.

#include <rehearsed/trainings.hpp>
#include <support/networks.hpp>

#include <trireme/device/blocks/add.hpp>
#include <trireme/device/blocks/batch_norm.hpp>
#include <trireme/device/blocks/dropout.hpp>
#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace rehearsed_residual_test {
using namespace trireme;
using namespace rehearsed;
using rehearsal_runtime::stage;
using rehearsal_runtime::timing;

using test_networks::made_up;

using test_networks::conv3;
using norm = batch_norm<per_shard>;

/// Every kind of residual: alone, repeated, with a shortcut that has weights, and one in another; with a function
/// before the fork, right behind it, and where the ways meet.
using nested = residual<sequential<relu, conv3<4>, residual<sequential<norm, sigmoid>>>, sequential<norm, sigmoid>>;
using net = network<input<1, 28, 28>, avg_pool2d<4>, conv3<3>, norm, relu, repeat<2, test_networks::plain<norm, 3>>,
                    test_networks::halving<norm, 4>, nested, dropout<percent<20>>, global_avg_pool2d, linear<10>>;
/// Functions in a row, and repeats that begin or end with one; the first parameters are in a repeat.
using functions = network<input<1, 28, 28>, avg_pool2d<7>, repeat<2, relu, conv3<1>, sigmoid>, hyperbolic_tangent,
                          repeat<2, conv3<1>, relu>, dropout<percent<50>>, flatten, linear<10>>;

template<class Device, class Network = net, class T = f64, class Optimizer = sgd_momentum>
using any = trainer<Network, cross_entropy, Optimizer, on<mesh<Device, dp<dynamic>>>, reduce_by<chosen_at_run_time>,
                    reproducible<fixed_tree, dynamic>, precision<T>>;

template<class Network, class T>
void trains_like_the_host(int epochs, double allowed) {
    struct setting {
        int devices;
        std::size_t shards;
    };
    for (auto const& one : {setting{1, 0}, setting{2, 0}, setting{1, 4}, setting{2, 5}, setting{3, 3}}) {
        auto const devices = one.devices;
        auto const shards = one.shards;
        CAPTURE(devices);
        CAPTURE(shards);
        any<host, Network, T> on_host(
            {.learning_rate = 0.03f, .batch = 12, .seed = 3, .devices = devices, .logical_shards = shards});
        auto const expected = train(on_host, 42, epochs); // the last batch is half a batch
        for (bool const eager : {false, true}) {
            CAPTURE(eager);
            on_stage const as_told(eager ? timing::late : timing::shuffled, 5);
            any<rehearsal, Network, T> t({.learning_rate = 0.03f,
                                          .batch = 12,
                                          .seed = 3,
                                          .devices = devices,
                                          .logical_shards = shards,
                                          .eager = eager});
            auto const got = train(t, 42, epochs);
            CHECK(apart(got.losses, expected.losses) < allowed);
            CHECK(apart(got.numbers, expected.numbers) < 10 * allowed);
        }
    }
}

/// What stream_pass takes for granted where a function is part of a layer's kernel.
template<class Network, class Chain = Network>
void fused_lie_in_place(activation_plan<Network::depth> const& plan) {
    detail::for_units<Chain>(0, [&]<class C, std::size_t Unit>(detail::unit<C, Unit>, std::size_t row) {
        if (detail::applies_next<C, Unit>()) CHECK(plan.value[row + 2] == plan.value[row + 1]);
        if (detail::applies_previous<C, Unit>() && row > Network::first_trainable)
            CHECK(plan.gradient[row - 1] == plan.gradient[row]);
    });
}

TEST_SUITE("rehearsed/residual") {
    TEST_CASE("losses, parameters and running statistics are the host's: any ranks, any shards, eager and captured") {
        trains_like_the_host<net, f64>(2, 1e-9);
        trains_like_the_host<functions, f64>(2, 1e-9);
    }
    // where three samples have almost the same values, their variance is mostly rounding
    TEST_CASE("and in float") { trains_like_the_host<net, f32>(1, 1e-3); }

    TEST_CASE("the same bits for any number of ranks, eager or captured, whenever work is done") {
        outcome<float> first;
        for (int const ranks : {1, 2, 4})
            for (bool const eager : {false, true})
                for (auto const when : {timing::late, timing::eager, timing::shuffled}) {
                    CAPTURE(ranks);
                    CAPTURE(eager);
                    on_stage const as_told(when, 3);
                    any<rehearsal, net, f32> t({.learning_rate = 0.03f,
                                                .batch = 12,
                                                .seed = 4,
                                                .devices = ranks,
                                                .logical_shards = 4,
                                                .eager = eager});
                    auto got = train(t, 28, 1);
                    for (int r = 0; r < ranks; ++r) CHECK(t.wire(r).bytes == 3 * t.plan().wire(r).bytes);
                    got.numbers.resize(net::parameters + net::buffers); // of one rank
                    if (first.losses.empty()) first = got;
                    CHECK(got == first);
                }
    }

    TEST_CASE("parts of gradients and statistics travel while backward goes on: the same sums") {
        gradients_in_parts_give_the_same_sums<net>();
    }

    TEST_CASE("shards and ranks with few samples or none, and steps of other sizes") {
        for (int const devices : {1, 3})
            for (bool const eager : {false, true}) {
                CAPTURE(devices);
                CAPTURE(eager);
                on_stage const as_told(timing::shuffled, 9);
                any<host> on_host(
                    {.learning_rate = 0.03f, .batch = 24, .seed = 3, .devices = devices, .logical_shards = 6});
                any<rehearsal> t({.learning_rate = 0.03f,
                                  .batch = 24,
                                  .seed = 3,
                                  .devices = devices,
                                  .logical_shards = 6,
                                  .eager = eager});
                for (auto const n : std::initializer_list<std::size_t>{24, 3, 1, 7, 23, 24}) {
                    CAPTURE(n);
                    auto const images = made_up(n, n);
                    CHECK(t.step(images).loss == doctest::Approx(on_host.step(images).loss).epsilon(1e-8));
                    CHECK(t.evaluate(images).loss == doctest::Approx(on_host.evaluate(images).loss).epsilon(1e-8));
                }
                CHECK(apart(outcome_of(t).numbers, outcome_of(on_host).numbers) < 1e-8);
                auto const more = made_up(53); // an evaluation has no limit
                CHECK(t.evaluate(more).loss == doctest::Approx(on_host.evaluate(more).loss).epsilon(1e-8));
                CHECK_THROWS_WITH_AS(t.step(made_up(25)), doctest::Contains("25 samples, the option batch is 24"),
                                     usage_error);
            }
    }

    TEST_CASE("dropout in a step larger than the batch draws what the host draws") {
        for (std::size_t const shards : {std::size_t{0}, std::size_t{5}}) {
            on_stage const as_told(timing::shuffled, 2);
            any<host, functions> on_host(
                {.learning_rate = 0.1f, .batch = 7, .seed = 8, .devices = 2, .logical_shards = shards});
            any<rehearsal, functions> t(
                {.learning_rate = 0.1f, .batch = 7, .seed = 8, .devices = 2, .logical_shards = shards});
            for (auto const n : std::initializer_list<std::size_t>{31, 7, 50}) {
                auto const images = made_up(n, n);
                CHECK(t.step(images).loss == doctest::Approx(on_host.step(images).loss).epsilon(1e-9));
            }
            CHECK(apart(outcome_of(t).numbers, outcome_of(on_host).numbers) < 1e-9);
        }
    }

    TEST_CASE("parameters and running statistics are loaded and read, each without touching the other") {
        on_stage const as_usual;
        any<host> on_host({.learning_rate = 0.03f, .batch = 12, .seed = 1});
        any<rehearsal> t({.learning_rate = 0.03f, .batch = 12, .seed = 2, .devices = 2});
        CHECK(std::vector<double>(t.buffers(1).begin(), t.buffers(1).end()) ==
              std::vector<double>(on_host.buffers().begin(), on_host.buffers().end()));
        auto const images = made_up(12);
        on_host.step(images);
        t.step(images);
        auto const statistics = std::vector<double>(on_host.buffers().begin(), on_host.buffers().end());
        auto const own = std::vector<double>(t.parameters().begin(), t.parameters().end());
        t.load_buffers(statistics);
        CHECK(std::vector<double>(t.parameters(1).begin(), t.parameters(1).end()) == own);
        CHECK(std::vector<double>(t.buffers(1).begin(), t.buffers(1).end()) == statistics);
        t.load_parameters(on_host.parameters());
        CHECK(std::vector<double>(t.buffers().begin(), t.buffers().end()) == statistics);
        CHECK(t.evaluate(images).loss == doctest::Approx(on_host.evaluate(images).loss).epsilon(1e-12));
    }

    TEST_CASE("the plan is what the devices are asked for, to the byte") {
        on_stage const as_usual;
        for (int const ranks : {1, 3})
            for (std::size_t const shards : {std::size_t{0}, std::size_t{5}}) {
                memory_taken const taken;
                any<rehearsal, net, f32> t({.batch = 20, .devices = ranks, .logical_shards = shards});
                taken.is_planned(t);
                t.step(made_up(20));
                taken.is_planned(t);
            }
    }

    TEST_CASE("every wait for an event is needed: without it some order of work goes wrong") {
        // Two ranks, two steps, the second smaller. Spare: the wait for a batch norm's gradients, where another layer's
        // come behind them, or nobody wants a part of them; the end of a first shard, for the second's beginning waits
        // as well; and that beginning, before which nothing has been merged yet.
        using small = network<input<1, 28, 28>, norm, avg_pool2d<14>, flatten, linear<3>,
                              residual<sequential<linear<3>, norm, relu, linear<3>>>, linear<10>>;
        constexpr std::uint64_t slots_and_ranks = 2 * 2;
        for (std::size_t const shards : {std::size_t{0}, std::size_t{4}}) {
            CAPTURE(shards);
            std::uint64_t const spare = slots_and_ranks * (shards == 0 ? 1 : 2 * 2 + 1 + 1);
            std::size_t const rest = shards == 0 ? 4 : 8; // two samples per shard, the fewest that batch_norm takes
            auto const run = [&](std::uint64_t forgotten) {
                stage::here().forget(forgotten);
                any<rehearsal, small, f32> t(
                    {.learning_rate = 0.1f, .batch = rest + 4, .seed = 6, .devices = 2, .logical_shards = shards});
                return train(t, rest + 4 + rest, 1);
            };
            outcome<float> expected;
            std::uint64_t waits = 0, missed = 0;
            {
                on_stage const as_usual;
                expected = run(~std::uint64_t{0});
                waits = stage::here().waits();
            }
            CHECK(waits > 10);
            std::string not_missed;
            for (std::uint64_t w = 0; w < waits; ++w) {
                bool wrong = false;
                for (std::uint64_t seed = 0; seed < 40 && !wrong; ++seed) {
                    on_stage const as_told(seed == 0 ? timing::late : timing::shuffled, seed);
                    try {
                        wrong = !(run(w) == expected);
                    } catch (std::exception const&) { // a capture that is not joined, an index out of nowhere
                        wrong = true;
                    }
                }
                missed += wrong;
                if (!wrong) not_missed += std::to_string(w) + ' ';
            }
            CAPTURE(not_missed);
            CHECK(missed + spare == waits);
        }
    }

    TEST_CASE("a function that a layer applies lies where the layer's own result does") {
        for (std::size_t const samples : std::initializer_list<std::size_t>{1, 3, 64}) {
            fused_lie_in_place<net>(plan_activations<net>(samples, 4, true));
            fused_lie_in_place<functions>(plan_activations<functions>(samples, 4, true));
        }
    }
}

} // namespace rehearsed_residual_test
