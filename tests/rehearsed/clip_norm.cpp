// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Gradients that are measured and clipped on accelerators, rehearsed on the host.

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/clipping.hpp>
#include <support/networks.hpp>

namespace rehearsed_clip_norm_test {
using namespace trireme;
using namespace rehearsed;
using namespace test_clipping;

namespace {
using dense = network<input<1, 28, 28>, avg_pool2d<2>, flatten, linear<100>, relu, linear<12>, relu, linear<10>>;
} // namespace

TEST_SUITE("rehearsed/clip_norm") {
    TEST_CASE("a step is shortened to the largest norm") {
        on_stage const as_usual;
        is_shortened<rehearsal, dense>(1e-10);
    }

    TEST_CASE("norms, losses and weights have one device's bits, however late or shuffled work is done") {
        for (auto const when : {timing::late, timing::shuffled, timing::eager}) {
            on_stage const how(when, 3);
            has_one_devices_bits<rehearsal, dense>();
        }
    }

    TEST_CASE("a rank takes the squares of each stage that others have") {
        auto const messages = []<class T>(std::type_identity<T>, auto const& options) {
            return T::plan({24}, T::layout_of(options, {.stages = 2, .schedule = interleaved<2>{}})).wire(0).messages;
        };
        using without = test_networks::any_stages<rehearsal, dense, cross_entropy, sgd>;
        using with_norm = clipped<rehearsal, dense>;
        CHECK(messages(std::type_identity<with_norm>{}, with_norm::options{.batch = 24, .logical_shards = 6}) ==
              messages(std::type_identity<without>{}, without::options{.batch = 24, .logical_shards = 6}) + 2);
    }

    TEST_CASE(
        "the largest norm is no part of a captured step: the norms of a changing gradient are those of the host") {
        on_stage const as_usual;
        clipped<rehearsal, dense, precision<f64>> t({.learning_rate = 0.5f, .max_norm = 0.02f, .batch = 24, .seed = 5});
        clipped<host, dense, precision<f64>> h({.learning_rate = 0.5f, .max_norm = 0.02f, .batch = 24, .seed = 5});
        for (std::size_t const n : {24u, 7u, 60u}) // the last one is larger than a batch, and no graph
            CHECK(t.step(made_up(n, n)).gradient_norm ==
                  doctest::Approx(h.step(made_up(n, n)).gradient_norm).epsilon(1e-10));
    }
}

} // namespace rehearsed_clip_norm_test
