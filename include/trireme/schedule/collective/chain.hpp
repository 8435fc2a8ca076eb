// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>

namespace trireme {

/// A line of ranks that begins at the root; the buffer travels along it in `pieces`, so that all links work at once.
///
/// - Phases: reduce towards the root, broadcast away from it, each piece as soon as the neighbour has it; a wait until
///   the neighbour has read. All-reduce is the two one behind the other.
/// - Cost per rank: `pieces` messages and one buffer read from the neighbour, twice that for all-reduce; a piece passes
///   n - 1 hops, so the time is (n - 2 + pieces) / pieces buffers.
/// - Wins: large buffers from or to one rank, and the fewest links. Loses: small buffers, many ranks.
/// - Deterministic: added from the far end; all ranks hold the same bits.
struct chain {
    static constexpr char const* name = "chain";
    static constexpr int pieces = 8;

    static constexpr schedule all_reduce(int ranks) noexcept {
        return {name, ranks, pieces, ranks > 1 ? 2 * pieces + 1 : 0, &all_reduce_step};
    }
    static constexpr schedule broadcast(int ranks, int root = 0) noexcept {
        return {name, ranks, pieces, ranks > 1 ? pieces + 1 : 0, &broadcast_step, root};
    }
    static constexpr schedule reduce(int ranks, int root = 0) noexcept {
        return {name, ranks, pieces, ranks > 1 ? pieces + 1 : 0, &reduce_step, root};
    }

private:
    /// Adds piece s of the next rank, which has added those behind it.
    static constexpr collective_step inwards(int n, int rank, int s) noexcept {
        if (rank == n - 1) return {};
        return {step_kind::reduce, s, one_rank(rank + 1), rank + 1 == n - 1 ? s : s + 1};
    }

    static constexpr collective_step broadcast_step(int n, int rank, int s) noexcept {
        if (s == pieces)
            return rank == n - 1 ? collective_step{} : collective_step{step_kind::wait, 0, one_rank(rank + 1), s};
        return rank == 0 ? collective_step{}
                         : collective_step{step_kind::copy, s, one_rank(rank - 1), rank == 1 ? s : s + 1};
    }
    static constexpr collective_step reduce_step(int n, int rank, int s) noexcept {
        if (s == pieces)
            return rank == 0 ? collective_step{} : collective_step{step_kind::wait, 0, one_rank(rank - 1), s};
        return inwards(n, rank, s);
    }
    static constexpr collective_step all_reduce_step(int n, int rank, int s) noexcept {
        if (s < pieces) return inwards(n, rank, s);
        if (s == 2 * pieces)
            return rank == n - 1 ? collective_step{} : collective_step{step_kind::wait, 0, one_rank(rank + 1), s};
        if (rank == 0) return {};
        int const piece = s - pieces; // complete when the root has added it, or the neighbour has copied it
        return {step_kind::copy, piece, one_rank(rank - 1), rank == 1 ? piece + 1 : s + 1};
    }
};

} // namespace trireme
