// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>

#include <bit>

namespace trireme {

/// Binomial tree: rank r stands above r + 1, r + 2, r + 4, ... as long as these are less than its lowest set bit; the
/// subtree of child c has the ranks from c on that are less than c plus c's lowest set bit.
///
/// - Phases: towards the root (a rank takes from its children, the smallest subtree first) or away from it (a rank
/// takes
///   from its parent); a wait until parent or children have read. Gather and scatter move whole subtrees of blocks.
/// - Cost: ceil(log2 n) rounds. Broadcast and scatter: one message per rank. Reduce and gather: at the root one per
///   round. Broadcast and reduce move a whole buffer in each message, so log2 n of them lie one behind the other.
/// - Wins: small buffers, many ranks. Loses: large buffers.
/// - Deterministic: own + smallest subtree + ... + largest.
struct binomial_tree {
    static constexpr char const* name = "binomial_tree";

    static constexpr schedule broadcast(int ranks, int root = 0) noexcept {
        return {name, ranks, 1, ranks > 1 ? 1 + rounds(ranks) : 0, &broadcast_step, root};
    }
    static constexpr schedule reduce(int ranks, int root = 0) noexcept {
        return {name, ranks, 1, ranks > 1 ? rounds(ranks) + 1 : 0, &reduce_step, root};
    }
    static constexpr schedule gather(int ranks, int root = 0) noexcept {
        return {name, ranks, ranks, ranks > 1 ? rounds(ranks) + 1 : 0, &gather_step, root, true};
    }
    static constexpr schedule scatter(int ranks, int root = 0) noexcept {
        return {name, ranks, ranks, ranks > 1 ? 1 + rounds(ranks) : 0, &scatter_step, root, true};
    }

private:
    static constexpr int rounds(int ranks) noexcept {
        return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
    }
    static constexpr int lowest_bit(int rank) noexcept { return rank & -rank; }

    /// The child that is 2^i above `rank`; -1 if there is none.
    static constexpr int child(int n, int rank, int i) noexcept {
        int const c = rank + (1 << i);
        return (rank == 0 || (1 << i) < lowest_bit(rank)) && c < n ? c : -1;
    }
    /// The blocks of the subtree under `rank`, itself included.
    static constexpr chunk_list subtree(int n, int rank) noexcept {
        int const size = rank == 0 ? n : lowest_bit(rank);
        return {rank, size < n - rank ? size : n - rank};
    }

    /// Takes from the children in rounds 0, 1, ...; then waits for the parent, which takes in the round of this rank.
    static constexpr collective_step inwards(step_kind kind, int n, int rank, int s) noexcept {
        if (s == rounds(n)) {
            if (rank == 0) return {};
            int const round = std::countr_zero(static_cast<unsigned>(rank));
            return {step_kind::wait, 0, one_rank(rank - lowest_bit(rank)), round + 1};
        }
        int const c = child(n, rank, s);
        if (c < 0) return {};
        return {kind, kind == step_kind::copy ? subtree(n, c) : chunk_list{0}, one_rank(c), s};
    }
    /// Takes from the parent; then waits for the children, which do the same.
    static constexpr collective_step outwards(int n, int rank, int s, chunk_list what) noexcept {
        if (s == 0) {
            if (rank == 0) return {};
            int const parent = rank - lowest_bit(rank);
            return {step_kind::copy, what, one_rank(parent), parent == 0 ? 0 : 1};
        }
        int const c = child(n, rank, s - 1);
        return c < 0 ? collective_step{} : collective_step{step_kind::wait, 0, one_rank(c), 1};
    }

    static constexpr collective_step broadcast_step(int n, int rank, int s) noexcept { return outwards(n, rank, s, 0); }
    static constexpr collective_step scatter_step(int n, int rank, int s) noexcept {
        return outwards(n, rank, s, subtree(n, rank));
    }
    static constexpr collective_step reduce_step(int n, int rank, int s) noexcept {
        return inwards(step_kind::reduce, n, rank, s);
    }
    static constexpr collective_step gather_step(int n, int rank, int s) noexcept {
        return inwards(step_kind::copy, n, rank, s);
    }
};

} // namespace trireme
