// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives whose caller names no strategy.

#include <trireme/schedule/collective/native.hpp>
#include <trireme/trireme.hpp>

#include <collective/convenience.hpp>
#include <collective/ended_group.hpp>
#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/messages.hpp>
#include <support/seed.hpp>

#include <array>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace collective_convenience_test {

using namespace trireme;
using namespace test_collectives;
using test_support::has;
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

    TEST_CASE("ranks whose sizes differ, and with them the choice, are told of both") {
        watchdog const guard("other sizes");
        threads::group g(4, std::chrono::seconds(20));
        try {
            g.run([](comm& c) {
                std::vector<float> x(c.rank() == 0 ? 4 : 4000);
                all_gather(c, x);
            });
            FAIL("nobody has noticed");
        } catch (mismatch_error const& e) {
            CHECK(has(e.what(), "all_gather<recursive_halving_doubling>(4 x f32, "));
            CHECK(has(e.what(), "all_gather<ring>(4000 x f32, "));
        }
    }
}

/// Averages and sums of a type of integers by several strategies, which differ in how they divide.
template<class T, class C>
void require_integers(C& c) {
    auto const ranks = c.size();
    auto const by = [&]<class S>(S) {
        std::vector<T> x(1000), y, z;
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(number(c.rank(), i) + 1);
        y = z = x;
        all_reduce<S>(c, x);
        all_reduce<S>(c, y, op::max{});
        all_reduce<S>(c, z, op::avg{});
        auto smallest = x;
        for (std::size_t i = 0; i < x.size(); ++i) smallest[i] = static_cast<T>(number(c.rank(), i) + 1);
        all_reduce<S>(c, smallest, op::min{});
        for (std::size_t i = 0; i < x.size(); ++i) {
            auto const sum = expected<op::sum>(ranks, i) + ranks;
            require(x[i] == static_cast<T>(sum) && z[i] == static_cast<T>(sum / ranks), "sum or average");
            require(y[i] == static_cast<T>(expected<op::max>(ranks, i) + 1), "largest");
            require(smallest[i] == static_cast<T>(expected<op::min>(ranks, i) + 1), "smallest");
        }
    };
    by(direct{});
    by(ring{});
    by(double_binary_tree{});
}

TEST_SUITE("collective/convenience: operations") {
    TEST_CASE_TEMPLATE("one's own, of any type, on any number of ranks", S, EVERY_STRATEGY) {
        watchdog const guard("own operations");
        for (int ranks = 1; ranks <= 8; ++ranks) {
            threads::group g(ranks, std::chrono::seconds(100));
            g.run([](comm& c) { require_own_operations<S>(c); });
        }
    }

    TEST_CASE_TEMPLATE("integers of all sizes", T, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t,
                       std::uint32_t, std::int64_t, std::uint64_t, long long) {
        watchdog const guard("integers");
        for (int const ranks : {1, 2, 3, 6}) {
            threads::group g(ranks, std::chrono::seconds(100));
            g.run([](comm& c) { require_integers<T>(c); });
        }
    }

    TEST_CASE("integers beyond the range of 32 bits, and below zero") {
        watchdog const guard("large integers");
        threads::group(3).run([](comm& c) {
            CHECK(all_reduce(c, std::uint64_t{1} << 62) == (std::uint64_t{3} << 62)); // goes round
            CHECK(all_reduce(c, std::int64_t{-3} << 40, op::avg{}) == std::int64_t{-3} * (std::int64_t{1} << 40));
            CHECK(all_reduce(c, std::int64_t{c.rank()} - 2, op::avg{}) == -1);
            CHECK(all_reduce(c, std::int64_t{c.rank() == 0 ? -5 : 0}, op::avg{}) == -1); // towards zero
        });
    }

    TEST_CASE_TEMPLATE("a plus of one's own has the bits of op::sum: the order of additions is the same", S, direct,
                       ring, recursive_halving_doubling, double_binary_tree, two_levels) {
        watchdog const guard("bits");
        for (int const ranks : {2, 3, 5, 8}) {
            CAPTURE(ranks);
            threads::group g(ranks, std::chrono::seconds(100));
            auto const seed = test_seed();
            g.run([&](comm& c) {
                std::mt19937_64 random(seed + static_cast<std::uint64_t>(c.rank()));
                std::vector<float> x(5000);
                for (auto& v : x)
                    v = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random), int(random() % 20));
                auto y = x;
                all_reduce<S>(c, x);
                all_reduce<S>(c, y, op::commutative("my sum", [](float a, float b) { return a + b; }));
                require(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0, "other bits");
            });
        }
    }

    TEST_CASE("ranks compare the names, also far behind their beginnings") {
        watchdog const guard("names");
        threads::group g(2, std::chrono::seconds(20));
        try {
            g.run([](comm& c) {
                auto const largest = [](int a, int b) { return a > b ? a : b; };
                std::vector<int> x(10);
                if (c.rank() == 0) all_reduce<ring>(c, x, op::commutative("largest of all left", largest));
                if (c.rank() == 1) all_reduce<ring>(c, x, op::commutative("largest of all right", largest));
            });
            FAIL("nobody has noticed");
        } catch (mismatch_error const& e) {
            CHECK(has(e.what(), "all_reduce<ring>(10 x i32, largest of all left, root 0"));
            CHECK(has(e.what(), "all_reduce<ring>(10 x i32, largest of all right, root 0"));
        }
    }

    TEST_CASE("what an operation throws ends the collective on all ranks") {
        watchdog const guard("thrown");
        threads::group g(3, std::chrono::seconds(60));
        try {
            g.run([](comm& c) {
                std::vector<int> x(100, c.rank());
                all_reduce(c, x, op::commutative("careful", [](int a, int b) {
                               if (a + b > 2) throw std::range_error("that is too much");
                               return a + b;
                           }));
            });
            FAIL("nothing was thrown");
        } catch (device_error const& e) {
            CHECK(has(e.what(), "that is too much"));
        }
    }

    TEST_CASE("a transport's own collective refuses them") {
        watchdog const guard("native");
        threads::group g(2, std::chrono::seconds(20));
        try {
            g.run([](comm& c) {
                std::vector<float> x(100);
                all_reduce<native>(c, x, op::commutative("product", [](auto a, auto b) { return a * b; }));
            });
            FAIL("nothing was refused");
        } catch (device_error const& e) {
            CHECK(has(e.what(), "all_reduce by native: it is a transport's own, which knows sum, max, min and avg, but "
                                "not the operation \"product\": choose another strategy"));
        }
    }

    TEST_CASE("what is an operation, and of what") {
        using product = decltype(op::commutative("product", [](auto a, auto b) { return a * b; }));
        static_assert(reduction_operation<product> && !named_operation<product> && reduction_operation<op::avg>);
        static_assert(reducible_by<particle, product> && !reducible_by<particle, op::sum> && !reducible<bool>);
        static_assert(reducible_by<std::uint8_t, op::avg> && !reducible_by<std::string, product>);
        CHECK(std::string(dtype_name<std::uint16_t>) == "u16");
        CHECK(std::string(dtype_name<long long>) == "i64");
        CHECK(std::string(dtype_name<std::int8_t>) == "i8");
        CHECK(std::string(dtype_name<particle>) == "bytes");
        CHECK(std::string(dtype_name<bool>) == "bytes");
    }
}

TEST_SUITE("collective/convenience: results") {
    TEST_CASE("numbers, structs and buffers that are given away come back with the result") {
        watchdog const guard("results");
        for (int ranks = 1; ranks <= 8; ++ranks) {
            threads::group g(ranks, std::chrono::seconds(100));
            g.run([](comm& c) { require_results(c); });
        }
    }

    TEST_CASE("what is a value, and what a buffer") {
        static_assert(single_value<int> && single_value<particle> && !single_value<std::array<int, 3>>);
        static_assert(!single_value<float*> && !single_value<std::vector<int>> && !single_value<op::max>);
        static_assert(temporary_buffer<std::vector<int>> && temporary_buffer<std::array<int, 3>>);
        static_assert(!temporary_buffer<std::vector<int>&> && !temporary_buffer<std::vector<int> const>);
        static_assert(!temporary_buffer<std::span<int>>); // whose numbers are somebody's
    }
}

TEST_SUITE("collective/convenience: blocks that differ in size") {
    TEST_CASE_TEMPLATE("arrive where they belong, with exactly their bytes", S, EVERY_STRATEGY) {
        watchdog const guard("uneven blocks");
        for (int ranks = 1; ranks <= 8; ++ranks) {
            threads::group g(ranks, std::chrono::seconds(100));
            g.run([](comm& c) { require_uneven_blocks<S>(c); });
        }
        threads::group g(12, std::chrono::seconds(100), levels(3, 2, 2)); // blocks in another order
        g.run([](comm& c) { require_uneven_blocks<S>(c); });
    }

    TEST_CASE("a value with the blocks of all ranks is a range of spans") {
        std::array<std::size_t, 3> const sizes{2, 0, 1};
        blocks_by_rank<int> blocks(sizes);
        CHECK(blocks.numbers.size() == 3);
        CHECK(blocks.offsets == std::vector<std::size_t>{0, 2, 2, 3});
        blocks[0][1] = 5;
        blocks[2][0] = 7;
        int sum = 0, seen = 0;
        for (auto const block : std::as_const(blocks)) {
            ++seen;
            for (int const x : block) sum += seen * x;
        }
        CHECK(sum == 5 + 3 * 7);
        for (auto const block : blocks)
            for (int& x : block) ++x;
        CHECK(blocks.numbers == std::vector<int>{1, 6, 8});
        static_assert(std::ranges::forward_range<blocks_by_rank<int>>);
        static_assert(std::ranges::forward_range<blocks_by_rank<int> const>);
        static_assert(std::same_as<std::ranges::range_value_t<blocks_by_rank<int> const>, std::span<int const>>);
        CHECK(blocks_by_rank<int>().empty());
        CHECK(std::ranges::distance(blocks) == 3);
    }

    TEST_CASE("roots that do not exist and blocks that nobody has are refused") {
        watchdog const guard("refused");
        auto const refused = [](auto f) { return test_collectives::end_of_group<device_error>(f); };
        std::vector<int> const mine(3);
        CHECK(has(refused([&](comm& c) { (void)gatherv(c, mine, 3); }), "gatherv: root = 3 in a group of 3 ranks"));
        CHECK(has(refused([&](comm& c) { (void)scatterv(c, blocks_by_rank<int>(), -1); }), "scatterv: root = -1"));
        CHECK(has(refused([&](comm& c) { (void)scatterv(c, blocks_by_rank<int>()); }),
                  "scatterv: the root's input has 0 blocks; it needs 3, one per rank"));
        auto const cut = [&](std::vector<std::size_t> offsets) {
            blocks_by_rank<int> blocks;
            blocks.numbers.resize(3);
            blocks.offsets = std::move(offsets);
            return refused([&](comm& c) { (void)scatterv(c, c.rank() == 0 ? blocks : blocks_by_rank<int>()); });
        };
        CHECK(has(cut({0, 1, 2, 4}), "scatterv: the root's input has 3 elements; it needs 4, the sum of the counts of "
                                     "its blocks"));
        CHECK(has(cut({0, 2, 1, 3}), "scatterv: the block for rank 1 ends at number 1, before it begins at 2"));
        CHECK(has(cut({1, 1, 2, 3}), "scatterv: the block for rank 0 begins at number 1, and not at 0"));
    }
}

} // namespace collective_convenience_test
