// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Time by the cost model, traffic by link level, and the choice that follows from them.
#include <trireme/schedule/machine.hpp>

#include <trireme/collective/proved.hpp>
#include <trireme/schedule/collective/best_of.hpp>
#include <trireme/schedule/collective/bidirectional_ring.hpp>
#include <trireme/schedule/collective/binomial_tree.hpp>
#include <trireme/schedule/collective/chain.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/dissemination.hpp>
#include <trireme/schedule/collective/double_binary_tree.hpp>
#include <trireme/schedule/collective/hierarchical.hpp>
#include <trireme/schedule/collective/recursive_halving_doubling.hpp>
#include <trireme/schedule/collective/ring.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

namespace schedule_machine_test {
namespace {

using namespace trireme;
using doctest::Approx;

constexpr double alpha = 1000, beta = 8, gamma = 2, overhead = 100; // whole numbers, so that sums are exact
constexpr double message = alpha + overhead;
constexpr machine flat{{{alpha, beta, gamma, overhead}}};
using many = best_of<direct, ring, recursive_halving_doubling, chain, hierarchical<direct, ring>>;

/// Two machines of eight ranks, with a wire between them that is slower than what is inside.
struct two_nodes {
    static constexpr machine description{{{1e-6, 1e-10, 2e-11, 1e-7}, {2e-5, 1e-9, 2e-11, 1e-6}}, levels(8, 2)};
};

/// Ranks that are busy with every message that they send or get.
struct network_cards {
    static constexpr machine description{{{1e-6, 1e-10, 0, 1e-6}}};
};

// where ranks and size are known, so is the choice
static_assert(many::prices<collective::all_reduce>(2, 1_MiB).name() == direct::name);
static_assert(many::on<two_nodes>::prices<collective::all_reduce>(16, 1_MiB).best == 4);
static_assert(reduction_strategy<many> && makes<many, collective::all_reduce> && makes<many, collective::barrier>);
static_assert(!makes<best_of<ring, chain>, collective::barrier>);

template<class S, collective Goal>
double seconds(int ranks, std::size_t bytes, machine const& m = flat) {
    auto const s = schedule_of<S, Goal>(ranks);
    return seconds_of(s, {bytes, 1, s.chunks}, m);
}

} // namespace

TEST_SUITE("schedule/machine") {
    TEST_CASE("a ring takes 2 (n - 1) messages of an n-th, n - 1 of them added, and a wait") {
        for (int n = 2; n <= 9; ++n) {
            std::size_t const chunk = 4096;
            auto const bytes = chunk * static_cast<std::size_t>(n);
            double const steps = n - 1, part = static_cast<double>(chunk);
            CHECK(seconds<ring, collective::all_reduce>(n, bytes) ==
                  2 * steps * (message + part * beta) + steps * part * gamma + message);
            CHECK(seconds<ring, collective::all_gather>(n, bytes) == steps * (message + part * beta) + message);
        }
    }

    TEST_CASE("direct: n - 1 reads that are added, n - 1 writes at half the price, n - 1 waits") {
        for (int n = 2; n <= 9; ++n) {
            std::size_t const chunk = 4096;
            double const others = n - 1, part = static_cast<double>(chunk);
            CHECK(seconds<direct, collective::all_reduce>(n, chunk * static_cast<std::size_t>(n)) ==
                  alpha + others * (overhead + part * (beta + gamma)) + others * (overhead + part * beta / 2) + alpha +
                      others * overhead);
        }
    }

    TEST_CASE("steps overlap where the schedule lets them: a tree's depth, not its size") {
        int depth = 0;
        for (int n = 2; n <= 64; n *= 2) {
            ++depth;
            CAPTURE(n);
            CHECK(seconds<dissemination, collective::barrier>(n, 0) == depth * message);
            auto const copy = message + 512 * beta;
            CHECK(seconds<binomial_tree, collective::broadcast>(n, 512) >= depth * copy);
            CHECK(seconds<binomial_tree, collective::broadcast>(n, 512) <= depth * copy + (depth + 1) * message);
        }
    }

    TEST_CASE("more ranks than processors: at least their work, shared out") {
        machine two = flat;
        two.at_once = 2;
        for (int const n : {2, 4, 8}) {
            auto const each = seconds<direct, collective::all_reduce>(n, 1 << 16);
            auto const work = each - 2 * alpha; // waiting takes no processor
            CHECK(seconds<direct, collective::all_reduce>(n, 1 << 16, two) == std::max(each, work * n / 2));
        }
        two.at_once = 64; // enough for all
        CHECK(seconds<ring, collective::all_reduce>(4, 1 << 16, two) ==
              seconds<ring, collective::all_reduce>(4, 1 << 16));
    }

    TEST_CASE("traffic by level adds up, and hierarchies keep it inside") {
        levels const groups(8, 4);
        for (std::size_t const elements : {1000u, 4096u, 65536u}) {
            auto const flat_ring = ring::all_reduce(32);
            auto const nested = hierarchical<direct, ring>::all_reduce(32, groups);
            bytes_t flat_outside = 0, nested_outside = 0;
            for (int r = 0; r < 32; ++r) {
                for (auto const& s : {flat_ring, nested, direct::all_reduce(32)}) { // direct writes to its peers
                    buffer_cut const cut{elements, 4, s.chunks};
                    auto const t = traffic_of(s, r, cut, groups);
                    CHECK(t.total().messages == traffic_of(s, r, cut).messages);
                    CHECK(t.total().bytes == traffic_of(s, r, cut).bytes);
                    CHECK(t.at[2].messages == 0);
                }
                flat_outside = std::max(flat_outside, traffic_of(flat_ring, r, {elements, 4, 32}, groups).at[1].bytes);
                nested_outside =
                    std::max(nested_outside, traffic_of(nested, r, {elements, 4, nested.chunks}, groups).at[1].bytes);
            }
            // a ring sends nearly everything twice over the links between groups; nested, each rank an eighth of it
            if (elements == 65536) {
                CHECK(flat_outside == 2 * 31 * elements * 4 / 32);
                CHECK(nested_outside == 2 * 3 * elements * 4 / 8 / 4);
            }
        }
    }

    TEST_CASE("without groups all traffic is of level 0") {
        auto const s = ring::all_reduce(5);
        auto const t = traffic_of(s, 2, {1000, 4, s.chunks}, levels{});
        CHECK(t.at[0].bytes == traffic_of(s, 2, 1000, 4).bytes);
    }
}

TEST_SUITE("schedule/best_of") {
    TEST_CASE("the choice is the cheapest, whoever asks") {
        for (int const n : {1, 2, 3, 4, 8, 13, 16})
            for (bytes_t bytes = 0; bytes <= 64_MiB; bytes = bytes == 0 ? 1 : bytes * 7) {
                auto const p = many::prices<collective::all_reduce>(n, bytes);
                for (auto const s : p.seconds) CHECK(p.seconds[p.best] <= s);
                CHECK(std::string(p.name()) == schedule_of<many, collective::all_reduce>(n, 0, {}, bytes).name);
                for (int twice = 0; twice < 2; ++twice) // worked out, then remembered
                    CHECK(std::string(p.name()) == proved_schedule<many, collective::all_reduce>(n, 0, {}, bytes).name);
            }
    }

    TEST_CASE("prices are those of the next power of two, so that sizes that are nearly alike have one choice") {
        auto const odd = many::prices<collective::all_reduce>(8, 3_MiB + 5);
        auto const even = many::prices<collective::all_reduce>(8, 4_MiB);
        for (std::size_t i = 0; i < std::size(odd.seconds); ++i) CHECK(odd.seconds[i] == even.seconds[i]);
    }

    TEST_CASE("small buffers by few messages, large ones by few bytes") {
        using two = best_of<recursive_halving_doubling, direct>::on<network_cards>;
        CHECK(std::string_view(two::prices<collective::all_reduce>(16, 64).name()) == recursive_halving_doubling::name);
        CHECK(std::string_view(two::prices<collective::all_reduce>(16, 64_MiB).name()) == direct::name);
        auto const chosen = [](std::size_t bytes) { // by value: equal names may lie in several places
            return std::string(proved_schedule<two, collective::all_reduce>(16, 0, {}, bytes).name);
        };
        for (int twice = 0; twice < 2; ++twice) { // worked out, then remembered, each size for itself
            CHECK(chosen(64) == recursive_halving_doubling::name);
            CHECK(chosen(64_MiB) == direct::name);
        }
    }

    TEST_CASE("the machine decides: a slow wire between groups makes the hierarchy pay") {
        using here = many::on<two_nodes>;
        CHECK(std::string_view(here::prices<collective::all_reduce>(16, 16_MiB).name()) ==
              hierarchical<direct, ring>::name);
        CHECK(std::string_view(many::prices<collective::all_reduce>(16, 16_MiB).name()) == direct::name);
        CHECK(many::prices<collective::all_reduce>(16, 16_MiB, levels(4, 4)).name() !=
              nullptr); // given groups are used
    }

    TEST_CASE("what is priced is what is made: without groups of the communicator's, in the machine's") {
        using nested = hierarchical<direct, ring>;
        using best = best_of<nested>::on<two_nodes>;
        auto const bytes = 16_MiB;
        auto const made = schedule_of<best, collective::all_reduce>(16, 0, {}, bytes);
        CHECK(made.groups.sizes[0] == 8);
        CHECK(proved_schedule<best, collective::all_reduce>(16, 0, {}, bytes).groups.sizes[0] == 8);
        CHECK(best::prices<collective::all_reduce>(16, bytes).seconds[0] ==
              seconds_of(made, {bytes, 1, made.chunks}, two_nodes::description));
        CHECK(schedule_of<best, collective::all_reduce>(16, 0, levels(2, 8), bytes).groups.sizes[0] == 2);
        CHECK(schedule_of<best, collective::all_reduce>(12, 0, {}, bytes).groups.sizes[0] == 3); // as even as may be
    }

    TEST_CASE("a level that nobody has described costs what the one below it does") {
        auto const s = direct::all_reduce(8);
        machine grouped = flat;
        grouped.groups = levels(2, 4);
        CHECK(seconds_of(s, {4096, 1, 8}, grouped) == seconds_of(s, {4096, 1, 8}, flat));
        grouped.groups = levels(2, 2, 2); // nor the one below
        CHECK(seconds_of(s, {4096, 1, 8}, grouped) == seconds_of(s, {4096, 1, 8}, flat));
    }

    TEST_CASE("candidates that do not make the collective are left out") {
        using mixed = best_of<ring, binomial_tree, dissemination>;
        auto const p = mixed::prices<collective::broadcast>(8, 1_KiB);
        CHECK(std::string_view(p.name()) == binomial_tree::name);
        CHECK(p.seconds[0] < 0);
        CHECK(std::string_view(mixed::prices<collective::barrier>(8, 0).name()) == dissemination::name);
        CHECK(std::string_view(proved_schedule<mixed, collective::all_reduce>(8, 0, {}, 1_KiB).name) == ring::name);
    }

    TEST_CASE("it says why") {
        auto const text = best_of<direct, ring, dissemination>::prices<collective::all_reduce>(2, 1_MiB).why();
        CHECK(text.find("direct ") == 0);
        CHECK(text.find(" us, ring ") != std::string::npos);
        CHECK(text.find(": direct for 1048576 bytes on 2 ranks") != std::string::npos);
        CHECK(text.find("dissemination") == std::string::npos);
    }
}

} // namespace schedule_machine_test
