// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Batch norm with the statistics of the whole batch on accelerators, rehearsed on the host: numbers are added over all
// ranks in the middle of forward and backward.

#include <rehearsed/trainings.hpp>
#include <support/networks.hpp>

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>

namespace rehearsed_synchronised_test {
using namespace trireme;
using namespace rehearsed;
using rehearsal_runtime::timing;

using test_networks::conv3;
using test_networks::made_up;
using norm = batch_norm<synchronised>;

/// One norm as the first layer, alone, in repeats, and of a list of values; a convolution with weights on the way
/// around.
using net =
    network<input<1, 28, 28>, norm, avg_pool2d<4>, conv3<3>, norm, relu, repeat<2, test_networks::plain<norm, 3>>,
            test_networks::halving<norm, 4>, global_avg_pool2d, norm, linear<10>>;

template<class Device, class Dtype, class... Policies>
using any = trainer<net, cross_entropy, sgd_momentum, on<mesh<Device, dp<dynamic>>>, reduce_by<chosen_at_run_time>,
                    precision<Dtype>, Policies...>;

TEST_SUITE("rehearsed/synchronised") {
    TEST_CASE("losses, parameters and running statistics are the host's, and bytes the plan's") {
        for (int const devices : {1, 2, 3, 4})
            for (bool const eager : {false, true}) {
                CAPTURE(devices);
                CAPTURE(eager);
                on_stage const as_told(eager ? timing::late : timing::shuffled, 5);
                any<host, f64> on_host({.learning_rate = 0.03f, .batch = 12, .seed = 3, .devices = devices});
                any<rehearsal, f64> t(
                    {.learning_rate = 0.03f, .batch = 12, .seed = 3, .devices = devices, .eager = eager});
                auto const expected = train(on_host, 42, 2), got = train(t, 42, 2); // the last batch is half a batch
                CHECK(apart(got.losses, expected.losses) < 1e-9);
                CHECK(apart(got.numbers, expected.numbers) < 1e-8);
                for (int r = 0; r < devices; ++r) {
                    CHECK(t.wire(r).bytes == 8 * t.plan().wire(r).bytes);
                    CHECK(t.wire(r).messages == 8 * t.plan().wire(r).messages);
                    CHECK(t.plan().wire(r).bytes == on_host.plan().wire(r).bytes);
                }
            }
    }

    TEST_CASE("any number of ranks computes what one computes") {
        on_stage const as_told(timing::shuffled, 8);
        any<rehearsal, f64> one({.learning_rate = 0.03f, .batch = 12, .seed = 3});
        auto const expected = train(one, 42, 2);
        for (int const devices : {2, 3, 4}) {
            CAPTURE(devices);
            any<rehearsal, f64> t({.learning_rate = 0.03f, .batch = 12, .seed = 3, .devices = devices});
            auto got = train(t, 42, 2);
            got.numbers.resize(expected.numbers.size()); // of one rank
            CHECK(apart(got.losses, expected.losses) < 1e-8);
            CHECK(apart(got.numbers, expected.numbers) < 1e-7);
        }
    }

    TEST_CASE_TEMPLATE("the same bits, eager or captured, whenever work is done", Trainer, any<rehearsal, f32>,
                       any<rehearsal, bf16>, any<rehearsal, bf16, kernels<channels_last<rehearsal::kernels>>>) {
        outcome<float> first;
        for (bool const eager : {false, true})
            for (auto const when : {timing::late, timing::eager, timing::shuffled}) {
                CAPTURE(eager);
                on_stage const as_told(when, 3);
                Trainer t({.learning_rate = 0.03f, .batch = 12, .seed = 4, .devices = 3, .eager = eager});
                auto const got = train(t, 28, 1);
                if (first.losses.empty()) first = got;
                CHECK(got == first);
                for (std::size_t i = 0; i < got.numbers.size(); ++i) // on all ranks
                    CHECK(got.numbers[i] == got.numbers[i % (got.numbers.size() / 3)]);
            }
    }

    TEST_CASE("in bf16 the losses follow those in float") {
        on_stage const as_usual;
        any<rehearsal, f32> wide({.learning_rate = 0.03f, .batch = 24, .seed = 4, .devices = 2});
        auto const expected = train(wide, 96, 1);
        any<rehearsal, bf16> narrow({.learning_rate = 0.03f, .batch = 24, .seed = 4, .devices = 2});
        CHECK(apart(train(narrow, 96, 1).losses, expected.losses) < 0.05);
        any<rehearsal, bf16, kernels<channels_last<rehearsal::kernels>>> last(
            {.learning_rate = 0.03f, .batch = 24, .seed = 4, .devices = 2});
        CHECK(apart(train(last, 96, 1).losses, expected.losses) < 0.05);
    }

    TEST_CASE("gradients in parts: the same sums") { gradients_in_parts_give_the_same_sums<net>(); }

    TEST_CASE("ranks with few samples or none, and steps of other sizes") {
        for (bool const eager : {false, true}) {
            CAPTURE(eager);
            on_stage const as_told(timing::shuffled, 9);
            any<host, f64> on_host({.learning_rate = 0.03f, .batch = 24, .seed = 3, .devices = 3});
            any<rehearsal, f64> t({.learning_rate = 0.03f, .batch = 24, .seed = 3, .devices = 3, .eager = eager});
            for (auto const n : std::initializer_list<std::size_t>{24, 3, 7, 2, 24}) {
                CAPTURE(n);
                auto const images = made_up(n, n);
                CHECK(t.step(images).loss == doctest::Approx(on_host.step(images).loss).epsilon(1e-7));
                CHECK(t.evaluate(images).loss == doctest::Approx(on_host.evaluate(images).loss).epsilon(1e-7));
            }
            CHECK(apart(outcome_of(t).numbers, outcome_of(on_host).numbers) < 1e-7);
            CHECK_THROWS_WITH_AS(t.step(made_up(25)), doctest::Contains("25 samples, the option batch is 24"),
                                 usage_error);
            CHECK_THROWS_WITH_AS(t.step(made_up(1)), doctest::Contains("needs at least 2"), usage_error);
        }
    }

    TEST_CASE("the plan is what the devices are asked for, to the byte") {
        on_stage const as_usual;
        for (int const ranks : {1, 3}) {
            memory_taken const taken;
            any<rehearsal, f32> t({.batch = 20, .devices = ranks});
            taken.is_planned(t);
            t.step(made_up(20));
            taken.is_planned(t);
        }
    }
}

} // namespace rehearsed_synchronised_test
