// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/allocation_hook.hpp>
#include <support/networks.hpp>
#include <support/sanitizers.hpp>

#include <trireme/rehearsal.hpp>

#include <vector>

namespace trainer_allocations_test {
namespace {

using namespace trireme;
using namespace test_networks;

/// Steps that allocate nothing after the first one, the first with as many samples as any.
template<class Trainer, class Samples>
void only_the_first_allocates(Trainer& t, Samples const& most, Samples const& fewer) {
    t.step(most);
    auto const before = allocation_hook::allocations.load();
    for (auto const* samples : {&most, &fewer, &most}) t.step(*samples);
    CHECK(allocation_hook::allocations == before);
}

} // namespace

TEST_SUITE("trainer/allocations") {
    TEST_CASE("a step allocates nothing after the first") {
        auto const images = made_up(64);
        for (int const devices : sanitized ? std::vector{2} : std::vector{1, 2, 4})
            for (std::size_t const shards : {0u, 8u})
                for (strategy_choice const s : {strategy_choice(ring{}), strategy_choice(direct{})}) {
                    if (shards != 0 && !s.is<direct>()) continue;
                    CAPTURE(devices);
                    CAPTURE(shards);
                    any_layout<lenet, sgd_momentum> t({.batch = 64, .logical_shards = shards},
                                                      {.devices = devices, .strategy = s});
                    t.step(images);
                    auto const part =
                        images.take(3, 37); // made here: a part shares storage, but tests count everything
                    auto const before = allocation_hook::allocations.load();
                    for (int k = 0; k < 3; ++k) t.step(k == 1 ? part : images);
                    CHECK(allocation_hook::allocations == before);
                }
    }

    TEST_CASE("nor where the weights are held once") {
        auto const images = made_up(64);
        auto const part = images.take(3, 37);
        for (int const devices : {1, 2, 4})
            for (std::size_t const shards : {0u, 8u}) {
                CAPTURE(devices);
                CAPTURE(shards);
                any_replicas<host, small, cross_entropy, sgd_momentum, hold_weights<once>> t(
                    {.batch = 64, .logical_shards = shards}, {.devices = devices});
                t.step(images);
                auto const before = allocation_hook::allocations.load();
                for (int k = 0; k < 3; ++k) t.step(k == 1 ? part : images);
                t.evaluate(part);
                CHECK(allocation_hook::allocations == before);
            }
    }

    TEST_CASE("a small first step makes room for a whole batch") {
        auto const images = made_up(64);
        auto const part = images.take(0, 5);
        any_layout<small> t({.batch = 64}, {.devices = 2});
        t.step(part);
        auto const before = allocation_hook::allocations.load();
        t.step(images);
        t.step(part);
        CHECK(allocation_hook::allocations == before);
    }

    TEST_CASE("steps with more samples than a batch allocate nothing after the first that large") {
        auto const images = made_up(97);
        auto const part = images.take(40, 16);
        for (int const devices : {1, 2, 4})
            for (std::size_t const shards : {0u, 8u}) {
                CAPTURE(devices);
                CAPTURE(shards);
                any_layout<small> t({.batch = 16, .logical_shards = shards}, {.devices = devices});
                t.step(part); // which makes room for a batch
                only_the_first_allocates(t, images, part);
            }
        for (int const devices : {1, 2, 3}) {
            CAPTURE(devices);
            trainer<small, cross_entropy, sgd, on<mesh<rehearsal, dp<dynamic>>>> on_streams({.batch = 16},
                                                                                            {.devices = devices});
            only_the_first_allocates(on_streams, images, part);
        }
    }

    TEST_CASE("nor do steps in which layers add numbers over all devices") {
        static_assert(every_sum::exchanges.count > 0);
        auto const images = made_up(48);
        auto const part = images.take(3, 37);
        trainer<every_sum, cross_entropy, sgd_momentum, on<mesh<host, dp<3>>>> t({.batch = 48});
        only_the_first_allocates(t, images, part);
        using sums = network<input<1, 28, 28>, avg_pool2d<4>, batch_norm<synchronised>, flatten, linear<10>>;
        for (bool const eager : {false, true}) {
            CAPTURE(eager);
            trainer<sums, cross_entropy, sgd_momentum, on<mesh<rehearsal, dp<3>>>> on_streams({.batch = 48},
                                                                                              {.eager = eager});
            only_the_first_allocates(on_streams, images, part);
        }
    }

    TEST_CASE("an epoch allocates nothing after the first") {
        auto const images = made_up(200);
        any_layout<small> t({.batch = 64}, {.devices = 2});
        no_observer nobody;
        t.train_epoch(images, 1, 3, nobody);
        auto const before = allocation_hook::allocations.load();
        t.train_epoch(images, 2, 3, nobody);
        t.evaluate(images);
        CHECK(allocation_hook::allocations == before);
    }
}

} // namespace trainer_allocations_test
