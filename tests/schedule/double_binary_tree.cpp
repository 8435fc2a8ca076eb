// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/collective/double_binary_tree.hpp>

#include "structure.hpp"

#include <trireme/schedule/machine.hpp>

#include <doctest/doctest.h>

#include <algorithm>

namespace schedule_double_binary_tree_test {
namespace {

using namespace trireme;
using namespace structure;
using events = std::vector<std::string>;
using tree = double_binary_tree;

static_assert(reduction_strategy<tree>);
static_assert(proved_for<tree, 1, 16>);
static_assert(proved<tree, 32>);  // within the default limits of all compilers; g++ proves 64
static_assert(tree::pieces == 4); // what the traces below are written for

int depth(int which, int n, int rank) {
    int hops = 0;
    for (int at = rank; (at = tree::in_tree(which, n, at).parent) >= 0;) ++hops;
    return hops;
}

int children(int which, int n, int rank) {
    auto const p = tree::in_tree(which, n, rank);
    return (p.left >= 0 ? 1 : 0) + (p.right >= 0 ? 1 : 0);
}

bool same(tree::place a, tree::place b) { return a.parent == b.parent && a.left == b.left && a.right == b.right; }

} // namespace

TEST_SUITE("schedule/double_binary_tree") {
    TEST_CASE("one rank has nothing to do") { CHECK(tree::all_reduce(1).steps == 0); }

    TEST_CASE("the trees of four and of five ranks") {
        CHECK(same(tree::in_tree(0, 4, 0), {-1, -1, 2}));
        CHECK(same(tree::in_tree(0, 4, 1), {2, -1, -1}));
        CHECK(same(tree::in_tree(0, 4, 2), {0, 1, 3}));
        CHECK(same(tree::in_tree(0, 4, 3), {2, -1, -1}));
        CHECK(same(tree::in_tree(1, 4, 3), {-1, -1, 1})); // the mirror image
        CHECK(same(tree::in_tree(1, 4, 1), {3, 2, 0}));
        CHECK(same(tree::in_tree(0, 5, 4), {0, 2, -1}));
        CHECK(same(tree::in_tree(0, 5, 2), {4, 1, 3}));
        CHECK(same(tree::in_tree(1, 5, 1), {-1, -1, 0})); // the rotation by one
        CHECK(same(tree::in_tree(1, 5, 0), {1, 3, -1}));
    }

    TEST_CASE("both are trees: one root, parents and children agree, everybody is reached") {
        for (int n = 2; n <= 64; ++n)
            for (int which = 0; which < 2; ++which) {
                CAPTURE(n);
                CAPTURE(which);
                int roots = 0, edges = 0;
                bool agree = true;
                for (int r = 0; r < n; ++r) {
                    auto const p = tree::in_tree(which, n, r);
                    roots += p.parent < 0;
                    for (int const child : {p.left, p.right})
                        if (child >= 0) {
                            ++edges;
                            agree = agree && child < n && tree::in_tree(which, n, child).parent == r;
                        }
                    agree = agree && p.parent < n && (p.left < 0 || p.left != p.right);
                }
                CHECK(roots == 1);
                CHECK(edges == n - 1);
                CHECK(agree);
            }
    }

    TEST_CASE("no way to the root is longer than log2(n), rounded up") {
        for (int n = 2; n <= 64; ++n) {
            int log = 0;
            while (1 << log < n) ++log;
            int deepest = 0;
            for (int r = 0; r < n; ++r) deepest = std::max({deepest, depth(0, n, r), depth(1, n, r)});
            CAPTURE(n);
            CHECK(deepest == log);
        }
    }

    TEST_CASE("a rank that adds in one tree is a leaf of the other; of an odd number, rank 0 alone adds in both") {
        for (int n = 2; n <= 64; ++n) {
            std::vector<int> both;
            for (int r = 0; r < n; ++r)
                if (!tree::in_tree(0, n, r).leaf() && !tree::in_tree(1, n, r).leaf()) both.push_back(r);
            CAPTURE(n);
            CHECK((both == (n % 2 == 0 ? std::vector<int>{} : std::vector<int>{0})));
        }
    }

    TEST_CASE("the trace of two ranks: each adds one half and copies the other") {
        auto const s = tree::all_reduce(2);
        CHECK((trace(s, 0) == events{"reduce 0 from 1 after 0", "idle", "reduce 1 from 1 after 0", "idle",
                                     "reduce 2 from 1 after 0", "idle", "reduce 3 from 1 after 0", "idle", "idle",
                                     "copy 4 from 1 after 9", "idle", "copy 5 from 1 after 11", "idle",
                                     "copy 6 from 1 after 13", "idle", "copy 7 from 1 after 15", "wait for 1 after 16",
                                     "idle"}));
    }

    TEST_CASE("the trace of an inner rank of four") {
        auto const s = tree::all_reduce(4);
        CHECK((trace(s, 2) == events{"reduce 0 from 1 3 after 0", "idle", "reduce 1 from 1 3 after 0", "idle",
                                     "reduce 2 from 1 3 after 0", "idle", "reduce 3 from 1 3 after 0", "idle",
                                     "copy 0 from 0 after 9", "copy 4 from 1 after 9", "copy 1 from 0 after 10",
                                     "copy 5 from 1 after 11", "copy 2 from 0 after 12", "copy 6 from 1 after 13",
                                     "copy 3 from 0 after 14", "copy 7 from 1 after 15", "wait for 1 3 after 16",
                                     "idle"}));
        CHECK(event(s, 0, 0) == "reduce 0 from 2 after 1"); // its child must have added first
    }

    TEST_CASE("messages and bytes per rank follow from its places: one read per child up, one from the parent down") {
        for (int n = 2; n <= 64; ++n) {
            CAPTURE(n);
            auto const s = tree::all_reduce(n);
            CHECK(s.chunks == 2 * tree::pieces);
            CHECK(s.steps == 4 * tree::pieces + 2);
            constexpr std::size_t elements = 2 * tree::pieces * 16 * 5; // of 4 bytes: all chunks equal
            bool right = true;
            for (int r = 0; r < n; ++r) {
                int reads = 0;
                for (int which = 0; which < 2; ++which)
                    reads += children(which, n, r) + (tree::in_tree(which, n, r).parent >= 0 ? 1 : 0);
                auto const t = traffic_of(s, r, elements, 4);
                right = right && t.messages == static_cast<std::uint64_t>(reads) * tree::pieces &&
                        t.bytes == static_cast<bytes_t>(reads) * (elements / 2) * 4 && t.bytes <= 2 * elements * 4;
            }
            CHECK(right);
            auto const all = traffic_of_all(s, 4099, 4);
            auto const edges = static_cast<std::uint64_t>(n - 1);
            CHECK(all.bytes == 2 * edges * 4099 * 4); // as much as the ring, over all ranks
            CHECK(all.messages == 4 * edges * tree::pieces);
        }
    }

    TEST_CASE("the levels of the trees work at once: the time is the buffer's and the depth's, not their product") {
        machine const unit{{{0, 1, 0, 0}}}; // a second per byte, and nothing else
        int depth = 1;
        for (int n = 2; n <= 128; ++n) {
            if (n > 1 << depth) ++depth;
            CAPTURE(n);
            constexpr std::size_t chunk = 64;
            auto const units = [&](schedule const& s) {
                return seconds_of(s, {2 * tree::pieces * chunk, 1, s.chunks}, unit) / chunk;
            };
            CHECK(units(tree::broadcast(n)) <= 2 * tree::pieces + depth);
            if (n == 1 << depth) CHECK(units(tree::reduce(n)) <= 2 * tree::pieces + 2 * depth + 1);
        }
    }

    TEST_CASE("it is proved for 2 to 64 ranks") {
        for (int n = 2; n <= 64; ++n) {
            CAPTURE(n);
            CHECK(verify(collective::all_reduce, tree::all_reduce(n)).ok());
        }
    }
}

} // namespace schedule_double_binary_tree_test
