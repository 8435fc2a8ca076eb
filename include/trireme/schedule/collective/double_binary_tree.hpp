// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>

namespace trireme {

/// Double binary tree all-reduce: two binary trees, each for one half of the buffer, chosen so that a rank that adds in
/// one tree is a leaf of the other (for an odd number of ranks, all but rank 0). Each half travels in `pieces` chunks,
/// which a rank takes in the order in which they can arrive, so that the levels of the trees work at once.
///
/// - Phases: up (every inner rank adds its children's chunks), down (every rank copies its parent's), a wait until the
///   children have read. Reduce is the first of them, broadcast the second; between rank 0 and the second tree's root,
///   another rank, that half takes one hop more.
/// - Cost per rank: at most 2 buffers read from peers, 4 `pieces` + 2 steps for any n; a broadcast takes the time
///   of 2 `pieces` + log2(n) chunks.
/// - Wins: many ranks and small or medium buffers. Loses: few ranks, where a ring reads less.
/// - Deterministic: own + left + right at every inner rank; all ranks hold the same bits.
/// - Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009.
struct double_binary_tree {
    static constexpr char const* name = "double_binary_tree";
    static constexpr int pieces = 4;

    static constexpr schedule all_reduce(int ranks) noexcept {
        return {name, ranks, 2 * pieces, ranks > 1 ? 4 * pieces + 2 : 0, &all_reduce_step};
    }
    static constexpr schedule reduce(int ranks, int root = 0) noexcept {
        return {name, ranks, 2 * pieces, ranks > 1 ? 3 * pieces + 2 : 0, &reduce_step, root};
    }
    static constexpr schedule broadcast(int ranks, int root = 0) noexcept {
        return {name, ranks, 2 * pieces, ranks > 1 ? 2 * pieces + 3 : 0, &broadcast_step, root};
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

    /// Step s of the way up: piece s / 2 of tree s % 2. Inner children must have added this chunk. Leaves need not have
    /// done anything; but of 3 ranks one reads another in both trees, and what one peer sends stays in order.
    static constexpr collective_step up(int n, int rank, int s) noexcept {
        int const tree = s % 2;
        auto const here = in_tree(tree, n, rank);
        if (here.leaf()) return {};
        auto const below = children(here, n);
        bool leaves = true;
        for (int i = 0; i < below.count; ++i) leaves = leaves && in_tree(tree, n, below.at(i, n)).leaf();
        int const from_leaves = n == 3 ? s : 0;
        return {step_kind::reduce, tree * pieces + s / 2, below, leaves ? from_leaves : s + 1};
    }

    /// Hops from a tree's root.
    static constexpr int depth(int tree, int n, int rank) noexcept {
        int d = 0;
        for (rank = in_tree(tree, n, rank).parent; rank >= 0; rank = in_tree(tree, n, rank).parent) ++d;
        return d;
    }
    struct turn {
        int tree = 0;
        int piece = 0;
    };
    /// On the way down a rank takes pieces in the order in which they can arrive: piece k of a tree after its depth and
    /// two times k, for ranks deal with both trees. When is it that one's turn?
    static constexpr int step_of(turn t, int n, int rank) noexcept {
        // pieces j of the other tree that come before: its depth + 2 j < depth + 2 piece; of equal ones tree 0's
        int const ahead = depth(t.tree, n, rank) - depth(1 - t.tree, n, rank) + 2 * t.piece + t.tree;
        int const before = ahead <= 0 ? 0 : (ahead + 1) / 2;
        return t.piece + (before < pieces ? before : pieces);
    }
    static constexpr turn turn_at(int n, int rank, int s) noexcept {
        for (int x = 0; x < 2 * pieces; ++x)
            if (turn const t{x % 2, x / 2}; step_of(t, n, rank) == s) return t;
        return {};
    }
    static constexpr collective_step down(turn t, int source, int after) noexcept {
        return {step_kind::copy, t.tree * pieces + t.piece, one_rank(source), after};
    }
    /// Until the children in `tree` have completed `after` steps.
    static constexpr collective_step until_children(int n, int rank, int tree, int after) noexcept {
        auto const here = in_tree(tree, n, rank);
        return here.leaf() ? collective_step{} : collective_step{step_kind::wait, 0, children(here, n), after};
    }
    static constexpr int top(int tree, int n) noexcept { return tree == 0 ? 0 : n % 2 == 0 ? n - 1 : 1 % n; }

    static constexpr collective_step all_reduce_step(int n, int rank, int s) noexcept {
        if (s < 2 * pieces) return up(n, rank, s);
        if (s < 4 * pieces) {
            auto const t = turn_at(n, rank, s - 2 * pieces);
            int const parent = in_tree(t.tree, n, rank).parent;
            return parent < 0 ? collective_step{} : down(t, parent, 2 * pieces + step_of(t, n, parent) + 1);
        }
        int const tree = s - 4 * pieces;
        return until_children(n, rank, tree, 4 * pieces);
    }
    /// Up; then rank 0 fetches the half that the second tree's root has; then everyone waits for who has read it.
    static constexpr collective_step reduce_step(int n, int rank, int s) noexcept {
        if (s < 2 * pieces) return up(n, rank, s);
        int const other = top(1, n);
        if (s < 3 * pieces) {
            return rank == 0 ? collective_step{step_kind::copy, s - pieces, one_rank(other), 2 * pieces}
                             : collective_step{};
        }
        int const tree = s - 3 * pieces;
        int const parent = in_tree(tree, n, rank).parent;
        if (parent >= 0) return {step_kind::wait, 0, one_rank(parent), 2 * pieces - 1 + tree};
        return rank != 0 ? collective_step{step_kind::wait, 0, one_rank(0), 3 * pieces} : collective_step{};
    }
    /// The second tree's root copies its half from rank 0, and everybody else from the parent; rank 0 has both halves.
    static constexpr collective_step broadcast_step(int n, int rank, int s) noexcept {
        int const other = top(1, n);
        if (s < 2 * pieces) {
            if (rank == 0) return {};
            auto const t = turn_at(n, rank, s);
            int const parent = in_tree(t.tree, n, rank).parent;
            return parent <= 0 ? down(t, 0, s + 1) : down(t, parent, step_of(t, n, parent) + 1);
        }
        if (s < 2 * pieces + 2) {
            int const tree = s - 2 * pieces;
            return until_children(n, rank, tree, 2 * pieces);
        }
        return rank == 0 ? collective_step{step_kind::wait, 0, one_rank(other), 2 * pieces} : collective_step{};
    }
};

} // namespace trireme
