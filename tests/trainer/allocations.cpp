// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/allocation_hook.hpp>
#include <support/networks.hpp>
#include <support/sanitizers.hpp>

#include <vector>

namespace trainer_allocations_test {
using namespace trireme;
using namespace test_networks;

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
                trainer<small, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>>>,
                        reproducible<fixed_tree, dynamic>, hold_weights<once>>
                    t({.batch = 64, .logical_shards = shards}, {.devices = devices});
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
