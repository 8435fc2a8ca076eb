// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>

namespace trireme {

/// Two rings in opposite directions, each for one half of every block.
///
/// - Phases: those of `ring`; even steps pull from the predecessor, odd ones from the successor.
/// - Cost per rank: twice the messages of `ring`, of half the size; the same bytes, half of them over each of the two
///   neighbours' links.
/// - Wins: large buffers where a link carries both directions at once. Loses: small buffers; shared memory.
/// - Deterministic: each half is added in one fixed order, the two in opposite ones; all ranks hold the same bits.
struct bidirectional_ring {
    static constexpr char const* name = "bidirectional_ring";

    static constexpr schedule all_reduce(int ranks) noexcept {
        return {name, ranks, 2 * ranks, ranks > 1 ? 4 * ranks - 3 : 0, &all_reduce_step};
    }
    static constexpr schedule reduce_scatter(int ranks) noexcept {
        return {name, ranks, 2 * ranks, ranks > 1 ? 2 * ranks - 1 : 0, &reduce_scatter_step};
    }
    static constexpr schedule all_gather(int ranks) noexcept {
        return {name, ranks, 2 * ranks, ranks > 1 ? 2 * ranks - 1 : 0, &all_gather_step};
    }

private:
    /// Round `s / 2` of one of the rings: a chunk moves from the neighbour at distance -1 or +1. In round 0 it is one
    /// of the block that lies `ahead` places behind the own one; a reduction that begins 2 behind ends with the own
    /// block.
    static constexpr collective_step move(step_kind kind, int n, int rank, int s, int ahead) noexcept {
        int const round = s / 2;
        bool const forward = s % 2 == 0;
        int const back = (ahead + round) % n;
        int const block = forward ? (rank + n - back) % n : (rank + back) % n;
        int const source = forward ? (rank + n - 1) % n : (rank + 1) % n;
        // the neighbour's step of the round before in this ring: s - 2, so s - 1 of its steps are complete
        return {kind, 2 * block + (forward ? 0 : 1), one_rank(source), s < 2 ? 0 : s - 1};
    }
    static constexpr collective_step wait(int n, int rank, int steps) noexcept {
        auto const both = n == 2 ? one_rank(1 - rank) : two_ranks((rank + 1) % n, (rank + n - 1) % n, n);
        return {step_kind::wait, 0, both, steps - 1};
    }

    static constexpr collective_step all_reduce_step(int n, int rank, int s) noexcept {
        if (s == 4 * n - 4) return wait(n, rank, 4 * n - 3);
        return move(s < 2 * n - 2 ? step_kind::reduce : step_kind::copy, n, rank, s, 2);
    }
    static constexpr collective_step reduce_scatter_step(int n, int rank, int s) noexcept {
        return s == 2 * n - 2 ? wait(n, rank, 2 * n - 1) : move(step_kind::reduce, n, rank, s, 2);
    }
    static constexpr collective_step all_gather_step(int n, int rank, int s) noexcept {
        return s == 2 * n - 2 ? wait(n, rank, 2 * n - 1) : move(step_kind::copy, n, rank, s, 1);
    }
};

} // namespace trireme
