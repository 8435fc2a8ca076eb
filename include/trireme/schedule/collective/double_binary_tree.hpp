// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>

namespace trireme {

/// Double binary tree all-reduce: two binary trees, each for one half of the buffer, chosen so that a rank that adds in
/// one tree is a leaf of the other (for an odd number of ranks, all but rank 0). Each half travels in `pieces` chunks,
/// so that the levels of a tree work at once.
///
/// - Phases: up (every inner rank adds its children's chunks), down (every rank copies its parent's), a wait until the
///   children have read.
/// - Cost per rank: at most 2 buffers read from peers, 4 `pieces` + 2 steps for any n; a chunk passes 2 log2(n) hops.
/// - Wins: many ranks and small or medium buffers. Loses: few ranks, where a ring reads less.
/// - Deterministic: own + left + right at every inner rank; all ranks hold the same bits.
/// - Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009.
struct double_binary_tree {
    static constexpr char const* name = "double_binary_tree";
    static constexpr int pieces = 4;

    static constexpr schedule all_reduce(int ranks) noexcept {
        return {name, ranks, 2 * pieces, ranks > 1 ? 4 * pieces + 2 : 0, &step};
    }

    /// A rank's place in one of the trees; -1 where there is nobody.
    struct place {
        int parent = -1;
        int left = -1;
        int right = -1;
        constexpr bool leaf() const noexcept { return left < 0 && right < 0; }
    };

    /// Tree 0 numbers its ranks in order: rank r stands above r - low/2 and r + low/2, low being its lowest set bit,
    /// and rank 0 above them all. Tree 1 is its mirror image for an even number of ranks, its rotation by one for an
    /// odd one.
    static constexpr place in_tree(int tree, int ranks, int rank) noexcept {
        if (tree == 0) return in_order(ranks, rank);
        bool const mirror = ranks % 2 == 0;
        auto const there = [&](int r) { return mirror ? ranks - 1 - r : (r + ranks - 1) % ranks; };
        auto const back = [&](int r) { return r < 0 ? -1 : mirror ? ranks - 1 - r : (r + 1) % ranks; };
        auto const p = in_order(ranks, there(rank));
        return {back(p.parent), back(p.left), back(p.right)};
    }

private:
    static constexpr place in_order(int n, int rank) noexcept {
        if (rank == 0) {
            int top = 1;
            while (2 * top < n) top *= 2;
            return {-1, -1, n > 1 ? top : -1};
        }
        int const low = rank & -rank;
        int const above = (rank ^ low) | (2 * low);
        int step = low / 2;
        while (step > 0 && rank + step >= n) step /= 2;
        return {above < n ? above : rank ^ low, low > 1 ? rank - low / 2 : -1, step > 0 ? rank + step : -1};
    }

    static constexpr rank_list children(place p, int n) noexcept {
        if (p.leaf()) return {};
        if (p.left < 0) return one_rank(p.right);
        if (p.right < 0) return one_rank(p.left);
        return two_ranks(p.left, p.right, n);
    }

    static constexpr collective_step step(int n, int rank, int s) noexcept {
        int const tree = s % 2;
        int const piece = s / 2 % pieces;
        int const chunk = tree * pieces + piece;
        auto const here = in_tree(tree, n, rank);
        auto const below = children(here, n);

        if (s < 2 * pieces) { // up: inner ranks must have added this chunk, leaves need not have; but what one peer
            if (here.leaf()) return {}; // sends stays in the order of steps, hence s and not 0
            bool leaves = true;
            for (int i = 0; i < below.count; ++i) leaves = leaves && in_tree(tree, n, below.at(i, n)).leaf();
            return {step_kind::reduce, chunk, below, leaves ? s : s + 1};
        }
        if (s < 4 * pieces) { // down: the parent has this chunk once it has been through this step itself
            if (here.parent < 0) return {};
            return {step_kind::copy, chunk, one_rank(here.parent), s + 1};
        }
        if (here.leaf()) return {};
        return {step_kind::wait, 0, below, 4 * pieces - 1 + tree}; // until the children have read
    }
};

} // namespace trireme
