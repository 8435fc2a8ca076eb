// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Blocks of any size from every rank to every rank, and numbers of which the root alone knows how many there are.

#include <trireme/group/mesh.hpp>
#include <trireme/trireme.hpp>

#include <collective/all_to_allv.hpp>
#include <collective/ended_group.hpp>
#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/messages.hpp>
#include <support/seed.hpp>

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace collective_all_to_allv_test {

using namespace trireme;
using namespace test_collectives;
using namespace std::chrono_literals;
using test_support::has;
using comm = threads::communicator;

namespace {

/// The strategy direct, in the other order of ranks: the one before first.
struct backwards {
    static constexpr char const* name = "backwards";
    static constexpr schedule all_to_all(int ranks) noexcept {
        return {name, ranks, ranks, ranks > 1 ? ranks : 0, &step};
    }

private:
    static constexpr collective_step step(int n, int rank, int s) noexcept {
        if (s == n - 1) return {step_kind::wait, 0, all_others(rank, n), n - 1};
        int const peer = (rank + n - 1 - s) % n;
        return {step_kind::copy, peer, one_rank(peer), 0, {}, rank};
    }
};

/// A strategy whose blocks go in two halves.
struct in_halves {
    static constexpr char const* name = "in_halves";
    static constexpr schedule all_to_all(int ranks) noexcept {
        return {name, ranks, 2 * ranks, ranks > 1 ? 2 * ranks - 1 : 0, &step};
    }

private:
    static constexpr collective_step step(int n, int rank, int s) noexcept {
        if (s == 2 * n - 2) return {step_kind::wait, 0, all_others(rank, n), 2 * n - 2};
        int const peer = (rank + 1 + s / 2) % n, half = s % 2;
        return {step_kind::copy, 2 * peer + half, one_rank(peer), 0, {}, 2 * rank + half};
    }
};

struct line {
    std::array<char, 64> bytes;
    friend bool operator==(line const&, line const&) = default;
};

/// Blocks of r + q elements from r to q.
template<class T, class Make>
void require_type(comm& c, Make&& make) {
    auto const n = static_cast<std::size_t>(c.size()), r = static_cast<std::size_t>(c.rank());
    std::vector<T> input;
    std::vector<std::size_t> counts;
    for (std::size_t q = 0; q < n; ++q) {
        counts.push_back(r + q);
        input.insert(input.end(), r + q, make(r * n + q));
    }
    auto const got = all_to_allv(c, std::move(input), counts);
    require(got.size() == n, "another number of blocks");
    for (std::size_t p = 0; p < n; ++p) {
        std::vector<T> const block(got[p].begin(), got[p].end());
        require(block == std::vector<T>(p + r, make(p * n + r)), "another block");
    }
}

} // namespace

TEST_SUITE("collective/all_to_allv") {
    TEST_CASE("blocks of random sizes arrive where they belong, with exactly their bytes, among 1 to 8 ranks") {
        watchdog const guard("random sizes");
        auto const seed = test_seed();
        for (int ranks = 1; ranks <= 8; ++ranks) {
            threads::group g(ranks, 100s);
            g.run([&](comm& c) {
                require_exchange<direct>(c, seed);
                require_exchange<backwards>(c, seed + 1);
            });
        }
    }

    TEST_CASE("elements may be bytes, numbers and structs of a cache line") {
        watchdog const guard("types");
        threads::group g(4, 100s);
        g.run([](comm& c) {
            require_type<char>(c, [](std::size_t x) { return static_cast<char>(x); });
            require_type<double>(c, [](std::size_t x) { return static_cast<double>(x) / 3; });
            require_type<line>(c, [](std::size_t x) {
                line l{};
                l.bytes.fill(static_cast<char>(x));
                return l;
            });
        });
        static_assert(numbers_of_any_count<std::vector<line>&> && numbers_of_any_count<std::vector<int>>);
        static_assert(!numbers_of_any_count<std::vector<std::string>&> && !numbers_of_any_count<std::span<bool>>);
    }

    TEST_CASE("groups along the axes of a mesh exchange at once, and between them the whole group does") {
        watchdog const guard("parts");
        auto const seed = test_seed();
        mesh_value const m{{"dp", 2}, {"pp", 3}};
        threads::group g(m.size(), 100s);
        g.run([&](comm& c) {
            for (int axis = 0; axis < 2; ++axis) {
                comm part(c, 1 + axis, mesh_group{{axis}}.members(m, c.rank()));
                require_exchange<direct>(part, seed);
                require_known_to_root(part, seed);
                require_exchange<direct>(c, seed);
            }
        });
    }

    TEST_CASE("blocks that are not those of the input or the group are refused") {
        watchdog const guard("refused");
        auto const refused = [](std::vector<std::size_t> const& counts) {
            return end_of_group<device_error>([&](comm& c) {
                std::vector<int> const numbers(8);
                (void)all_to_allv(c, numbers, c.rank() == 1 ? counts : std::vector<std::size_t>{3, 3, 2});
            });
        };
        CHECK(has(refused({3, 3, 1}), "device 1: all_to_allv: the input has 8 elements; it needs 7, the sum of the "
                                      "counts of its blocks"));
        CHECK(has(refused({3, 3, 3}), "it needs 9, the sum"));
        CHECK(has(refused({4, 4}), "all_to_allv: the input has 2 blocks; it needs 3, one per rank"));
        CHECK(has(refused({4, 4, 0, 0}), "all_to_allv: the input has 4 blocks; it needs 3"));
        CHECK(has(refused({0, static_cast<std::size_t>(-1), 9}),
                  "the block for rank 2 ends at number 8, before it begins at 18446744073709551615"));
        auto const of_blocks = end_of_group<device_error>([](comm& c) {
            std::array<std::size_t, 3> const sizes{1, 2, 3};
            blocks_by_rank<int> blocks(sizes);
            if (c.rank() == 1) blocks.numbers.pop_back();
            (void)all_to_allv(c, blocks);
        });
        CHECK(has(of_blocks, "the input has 5 elements; it needs 6"));
        auto const nothing = end_of_group<device_error>([](comm& c) { (void)all_to_allv(c, blocks_by_rank<int>()); });
        CHECK(has(nothing, "the input has 0 blocks; it needs 3"));
    }

    TEST_CASE("a strategy that cuts blocks is refused") {
        watchdog const guard("in halves");
        static_assert(verify(collective::all_to_all, in_halves::all_to_all(4)).ok());
        static_assert(verify(collective::all_to_all, backwards::all_to_all(4)).ok());
        auto const text = end_of_group<device_error>([](comm& c) {
            std::vector<int> const numbers(3);
            (void)all_to_allv<in_halves>(c, numbers, std::vector<std::size_t>(3, 1));
        });
        CHECK(has(text, "all_to_allv by in_halves: its blocks are cut, or pass other ranks"));
    }

    TEST_CASE("a rank that calls another collective, or has other elements, is told to all") {
        watchdog const guard("mismatches");
        auto const exchange = []<class T>(comm& c, T) {
            std::vector<T> const numbers(3);
            (void)all_to_allv(c, numbers, std::vector<std::size_t>(3, 1));
        };
        auto const another = end_of_group<mismatch_error>([&](comm& c) {
            if (c.rank() == 1) return (void)all_gather(c, std::vector<float>(3));
            exchange(c, 0.0f);
        });
        CHECK(has(another, "all_to_all<direct>(3 x bytes, 24 each"));
        CHECK(has(another, "all_gather<"));
        auto const later = end_of_group<mismatch_error>([&](comm& c) {
            exchange(c, 0.0f);
            if (c.rank() != 2) exchange(c, 0.0f);
            barrier<direct>(c);
        });
        CHECK(has(later, "barrier<direct>"));
        auto const elements =
            end_of_group<mismatch_error>([&](comm& c) { c.rank() == 2 ? exchange(c, 0.0) : exchange(c, 0.0f); });
        CHECK(has(elements, "all_to_allv<direct>(9 x f64"));
        CHECK(has(elements, "all_to_allv<direct>(9 x f32"));
    }

    TEST_CASE("a rank that does not come is named, and what a rank throws ends the waits of the others") {
        watchdog const guard("absent");
        auto const exchange = [](comm& c) {
            std::vector<int> const numbers(30000);
            (void)all_to_allv(c, numbers, std::vector<std::size_t>(3, 10000));
        };
        auto const late = end_of_group<deadline_error>(
            [&](comm& c) {
                if (c.rank() != 1) exchange(c);
                for (;; std::this_thread::sleep_for(1ms)) c.check_stopped();
            },
            3, 300ms);
        CHECK(has(late, "device 1 did not arrive within the deadline"));
        auto const thrown = end_of_group<device_error>([&](comm& c) {
            exchange(c);
            if (c.rank() == 1) throw std::runtime_error("no more blocks");
            exchange(c);
        });
        CHECK(has(thrown, "no more blocks"));
    }
}

TEST_SUITE("collective/all_to_allv: sizes that the root alone knows") {
    TEST_CASE("the others get all of the root's numbers, or their share of them, among 1 to 8 ranks") {
        watchdog const guard("known to the root");
        auto const seed = test_seed();
        for (int ranks = 1; ranks <= 8; ++ranks) {
            threads::group g(ranks, 100s);
            g.run([&](comm& c) { require_known_to_root(c, seed); });
        }
        static_assert(std::same_as<decltype(broadcastv(std::declval<comm&>(), "text")), std::vector<char>>);
    }

    TEST_CASE("roots that do not exist and numbers that cannot be shared evenly are refused") {
        watchdog const guard("refused");
        std::vector<int> const four(4);
        CHECK(has(end_of_group<device_error>([&](comm& c) { (void)broadcastv(c, four, 3); }), "broadcastv: root = 3"));
        CHECK(has(end_of_group<device_error>([&](comm& c) { (void)scatterv(c, four, -1); }), "scatterv: root = -1"));
        CHECK(has(end_of_group<device_error>([&](comm& c) { (void)scatterv(c, four); }),
                  "scatterv: the root's input has 4 elements; it needs a multiple of the 3 ranks"));
        auto const elements = end_of_group<mismatch_error>([&](comm& c) {
            if (c.rank() == 0) return (void)broadcastv(c, four);
            (void)broadcastv(c, std::vector<double>());
        });
        CHECK(has(elements, "(4 x f64"));
    }
}

} // namespace collective_all_to_allv_test
