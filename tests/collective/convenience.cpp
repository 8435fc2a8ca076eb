// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives whose caller names no strategy.

#include <trireme/trireme.hpp>

#include <collective/convenience.hpp>
#include <doctest/doctest.h>
#include <group/watchdog.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <string>
#include <vector>

namespace collective_convenience_test {

using namespace trireme;
using namespace test_collectives;
using comm = threads::communicator;

TEST_SUITE("collective/convenience: default strategies") {
    TEST_CASE("every collective is what a loop over the ranks says") {
        watchdog const guard("defaults");
        for (int ranks = 1; ranks <= 8; ++ranks) {
            threads::group g(ranks, std::chrono::seconds(100));
            g.run([](comm& c) { require_defaults(c); });
        }
    }

    TEST_CASE("each has one that makes it, and those that choose have reason to") {
        static_assert(makes<strategy_by_default<collective::all_reduce>, collective::all_reduce>);
        static_assert(makes<strategy_by_default<collective::reduce_scatter>, collective::reduce_scatter>);
        static_assert(makes<strategy_by_default<collective::all_gather>, collective::all_gather>);
        static_assert(makes<strategy_by_default<collective::broadcast>, collective::broadcast>);
        static_assert(makes<strategy_by_default<collective::reduce>, collective::reduce>);
        static_assert(makes<strategy_by_default<collective::gather>, collective::gather>);
        static_assert(makes<strategy_by_default<collective::scatter>, collective::scatter>);
        static_assert(makes<strategy_by_default<collective::all_to_all>, collective::all_to_all>);
        static_assert(makes<strategy_by_default<collective::barrier>, collective::barrier>);
        auto const name = []<collective Goal>(int ranks, bytes_t bytes) {
            return std::string(schedule_of<strategy_by_default<Goal>, Goal>(ranks, 0, {}, bytes).name);
        };
        auto const of = [&]<collective Goal>(std::integral_constant<collective, Goal>, int ranks, bytes_t bytes) {
            return name.template operator()<Goal>(ranks, bytes);
        };
        std::integral_constant<collective, collective::all_reduce> const adding;
        CHECK(of(adding, 4, 1_MiB) == "direct");
        CHECK(of(adding, 64, 8) == "recursive_halving_doubling");
        std::integral_constant<collective, collective::all_gather> const gathering;
        CHECK(of(gathering, 2, 1_KiB) == "direct");
        CHECK(of(gathering, 3, 1_MiB) == "ring");
        CHECK(of(gathering, 8, 1_KiB) == "recursive_halving_doubling");
        CHECK(of(std::integral_constant<collective, collective::broadcast>{}, 64, 8) == "binomial_tree");
        CHECK(of(std::integral_constant<collective, collective::reduce>{}, 64, 8) == "binomial_tree");
        CHECK(of(std::integral_constant<collective, collective::barrier>{}, 64, 0) == "dissemination");
    }

    TEST_CASE("the strategy of a call moves what its schedule says, and one that is named stays what it is") {
        watchdog const guard("chosen");
        threads::group g(3, std::chrono::seconds(100));
        g.run([](comm& c) {
            std::vector<float> x(300, 1.0f);
            auto before = c.pulled();
            all_gather(c, x);
            auto const moved = c.pulled() - before;
            auto const s = ring::all_gather(3);
            CHECK(moved.messages == traffic_of(s, c.rank(), {300, 4, s.chunks, 3}).messages);
            CHECK(moved.bytes == traffic_of(s, c.rank(), {300, 4, s.chunks, 3}).bytes);
            before = c.pulled();
            all_reduce<chain>(c, x);
            CHECK((c.pulled() - before).bytes == traffic_of(chain::all_reduce(3), c.rank(), 300, 4).bytes);
        });
    }
}

} // namespace collective_convenience_test
