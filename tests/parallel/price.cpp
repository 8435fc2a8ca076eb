// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/parallel/price.hpp>
#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/networks.hpp>

#include <algorithm>
#include <cstddef>

namespace parallel_price_test {
using namespace trireme;

namespace {

using dense = network<input<1, 28, 28>, flatten, linear<64>, repeat<14, linear<64>>, linear<10>>;
using trained = trainer<dense, cross_entropy, sgd, on<mesh<host, dp<dynamic>, pp<dynamic>>>>;

training_plan plan_of(int replicas, int stages, std::size_t micro_batches, schedule_choice const& s) {
    trained::options const o{.batch = 64 * static_cast<std::size_t>(replicas)};
    return trained::plan(
        o.batch.samples,
        trained::layout_of(o, {.devices = replicas, .stages = stages, .micro_batches = micro_batches, .schedule = s}));
}

constexpr machine free_links{};

} // namespace

TEST_SUITE("parallel/price") {
    TEST_CASE("one device computes, and does nothing else") {
        auto const plan = plan_of(1, 1, 1, {});
        auto const p = seconds_of(plan, free_links, 1e9);
        CHECK(p.seconds == doctest::Approx(static_cast<double>(dense::training_flops) * 64 / 1e9));
        CHECK(p.computing == p.seconds);
        CHECK((p.adding == 0 && p.waiting() == 0));
    }

    TEST_CASE("replicas add their gradients by the layout's strategy, over the links between them") {
        machine const m{{{1e-6, 1e-9, 1e-10, 2e-7}}};
        auto const plan = plan_of(4, 1, 1, {});
        auto const p = seconds_of(plan, m, 1e9);
        CHECK(p.computing == doctest::Approx(static_cast<double>(dense::training_flops) * 64 / 1e9));
        auto const s = plan.layout.reduction(0, plan.arena_elements, sizeof(float));
        CHECK(p.adding == doctest::Approx(seconds_of(s, {plan.arena_elements, sizeof(float), s.chunks}, m)));
        CHECK(p.seconds == doctest::Approx(p.computing + p.adding));
    }

    TEST_CASE("without a price for links, a step of a pipeline is computing and the bubble of its cut") {
        for (auto const& s :
             {schedule_choice(gpipe{}), schedule_choice(one_f_one_b{}), schedule_choice(zero_bubble_h1{}),
              schedule_choice(interleaved<2>{}), schedule_choice(zero_bubble_v{})}) {
            CAPTURE(s.name);
            auto const plan = plan_of(1, 4, 8, s);
            auto const p = seconds_of(plan, free_links, 1e9);
            auto const all = static_cast<double>(dense::training_flops) * 64 / 1e9;
            CHECK(p.seconds * 4 * (1 - plan.bubble()) == doctest::Approx(all));
            CHECK(p.computing == doctest::Approx(plan.imbalance() * all / 4));
            CHECK(p.adding == 0);
        }
    }

    TEST_CASE("a transfer takes what its link costs, beside what both sides compute") {
        // Two stages, one micro-batch: there, back, and two crossings in between, of 64 samples in granules.
        auto const plan = plan_of(1, 2, 1, one_f_one_b{});
        auto const alone = seconds_of(plan, free_links, 1e9).seconds;
        machine const m{{{1e-3, 1e-6, 0, 1e-4}}};
        auto const bytes = plan.crossing(plan.layout, 64, 0);
        CHECK(bytes.values == 64 * 64 * sizeof(float)); // a whole number of granules
        CHECK(bytes.gradients == bytes.values);
        CHECK(seconds_of(plan, m, 1e9).seconds ==
              doctest::Approx(alone + 2 * 1.1e-3 + 1e-6 * static_cast<double>(bytes.values + bytes.gradients)));
        // in a V the middle two stages are one device's: the first boundary and the third cross, there and back
        auto const v = plan_of(1, 2, 1, zero_bubble_v{});
        machine const late{{{1, 0, 0, 0}}};
        auto const waited = seconds_of(v, late, 1e9).seconds - seconds_of(v, free_links, 1e9).seconds;
        CHECK((waited > 3.9 && waited <= 4));
    }

    TEST_CASE("ranks lie in the machine's groups: stages within one, replicas across them, or the other way round") {
        machine const m{{{1e-6, 1e-11}, {1e-3, 1e-9}}, levels(2, 2)};
        auto const plan = plan_of(2, 2, 4, one_f_one_b{}); // ranks 0, 1 are the first replica
        auto const near = seconds_of(plan, m, 1e9);
        machine const turned{{{1e-6, 1e-11}}, {}};
        auto const cheap = seconds_of(plan, turned, 1e9);
        CHECK(near.computing == cheap.computing);
        CHECK(near.waiting() == doctest::Approx(cheap.waiting()));
        CHECK(near.adding > 1e-3);
        CHECK(cheap.adding < 1e-4);
        CHECK(near.seconds > cheap.seconds);
    }

    TEST_CASE("the replica with the most micro-batches is priced, and has the bubble: the last") {
        using repeats = trainer<dense, cross_entropy, sgd, on<mesh<host, dp<dynamic>, pp<dynamic>>>,
                                reproducible<fixed_tree, dynamic>>;
        auto const of = [](int replicas, int stages, std::size_t shards) {
            repeats::options const o{.batch = 10 * shards, .logical_shards = shards};
            return repeats::plan(o.batch, repeats::layout_of(o, {.devices = replicas, .stages = stages}));
        };
        for (std::size_t const shards : {4u, 5u, 7u, 8u}) {
            CAPTURE(shards);
            auto const most = (shards + 1) / 2; // 10 samples each
            CHECK(seconds_of(of(2, 1, shards), free_links, 1e9).computing ==
                  doctest::Approx(static_cast<double>(dense::training_flops * 10 * most) / 1e9));
            auto const both = of(2, 2, shards), one = of(1, 2, most);
            CHECK(seconds_of(both, free_links, 1e9).seconds ==
                  doctest::Approx(seconds_of(one, free_links, 1e9).seconds));
            CHECK(both.bubble() == doctest::Approx(one.bubble()));
            CHECK(both.bubble(both.equal_stages) == doctest::Approx(one.bubble(one.equal_stages)));
        }
    }

    TEST_CASE("all blocks of a fixed tree are read, and added") {
        machine const m{{{0, 1e-9, 1e-10, 0}}};
        auto const adding = [&](std::size_t shards) {
            using repeats =
                trainer<dense, cross_entropy, sgd, on<mesh<host, dp<2>>>, reproducible<fixed_tree, dynamic>>;
            repeats::options const o{.batch = 64, .logical_shards = shards};
            return seconds_of(repeats::plan(o.batch, repeats::layout_of(o)), m, 1e9).adding;
        };
        // 6 shards: the first device is left with blocks of 2 and 1, the second with those of 1 and 2, as one chunk
        // each
        auto const chunk =
            static_cast<double>(trained::plan(64, trained::layout_of({})).arena_elements / 2 * sizeof(float));
        CHECK(adding(6) - adding(4) == doctest::Approx(1.1e-9 * chunk));
        CHECK(adding(2) == adding(4)); // one block of each
    }

    TEST_CASE("sums of layers over the replicas cost what their links do, and the rest waits for them") {
        using norms = network<input<1, 4, 4>, batch_norm<synchronised>, conv2d<8, kernel<3>>, batch_norm<synchronised>,
                              relu, flatten, linear<10>>;
        using t = trainer<norms, cross_entropy, sgd, on<mesh<host, dp<4>>>>;
        machine const late{{{1, 0, 0, 0}}};
        auto const p = seconds_of(t::plan(batch{64}), late, 1e12);
        // the first row has parameters, too: all sums, each in two steps, as the gradients
        CHECK(p.adding == doctest::Approx(2));
        CHECK(p.waiting() == doctest::Approx(2.0 * static_cast<double>(norms::exchanges.count)));
    }

    TEST_CASE("clipping makes roles meet before they update") {
        using clipped = trainer<dense, cross_entropy, sgd, on<mesh<host, dp<dynamic>, pp<dynamic>>>, clip_norm>;
        auto const layout = clipped::layout_of({.batch = 64}, {.stages = 2, .micro_batches = 4});
        auto const p = seconds_of(clipped::plan(64, layout), free_links, 1e9);
        CHECK(p.seconds == doctest::Approx(seconds_of(plan_of(1, 2, 4, one_f_one_b{}), free_links, 1e9).seconds));
    }
}

} // namespace parallel_price_test
