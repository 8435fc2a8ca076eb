// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>

namespace trireme {

/// Ring: each rank pulls from its predecessor only.
///
/// - Phases: reduce-scatter (n - 1 steps: every chunk goes round once and gathers all contributions), then all-gather
///   (n - 1 steps: every finished chunk goes round once more); each of the two also alone.
/// - Cost per rank: 2 (n - 1) messages, 2 (n - 1)/n of the buffer read from peers, which is the least possible; half of
///   that for one phase alone.
/// - Wins: large buffers, links between neighbours only. Loses: small buffers, for its latency grows with n.
/// - Deterministic: each chunk is added in one fixed order, which depends on n; all ranks hold the same bits.
/// - Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.
struct ring {
    static constexpr char const* name = "ring";

    static constexpr schedule all_reduce(int ranks) noexcept {
        return {name, ranks, ranks, ranks > 1 ? 2 * ranks - 1 : 0, &all_reduce_step};
    }
    static constexpr schedule reduce_scatter(int ranks) noexcept {
        return {name, ranks, ranks, ranks > 1 ? ranks : 0, &reduce_scatter_step};
    }
    static constexpr schedule all_gather(int ranks) noexcept {
        return {name, ranks, ranks, ranks > 1 ? ranks : 0, &all_gather_step};
    }

private:
    /// Step s adds what the predecessor has added in its step s - 1; the last is to chunk `rank`.
    static constexpr collective_step add(int n, int rank, int s) noexcept {
        return {step_kind::reduce, (rank + 2 * n - 2 - s) % n, one_rank((rank + n - 1) % n), s};
    }
    /// Until the successor has completed all of `steps` but its own last wait.
    static constexpr collective_step wait(int n, int rank, int steps) noexcept {
        return {step_kind::wait, 0, one_rank((rank + 1) % n), steps - 1};
    }

    static constexpr collective_step all_reduce_step(int n, int rank, int s) noexcept {
        if (s == 2 * n - 2) return wait(n, rank, 2 * n - 1);
        auto step = add(n, rank, s);
        if (s >= n - 1) step.kind = step_kind::copy;
        return step;
    }
    static constexpr collective_step reduce_scatter_step(int n, int rank, int s) noexcept {
        return s == n - 1 ? wait(n, rank, n) : add(n, rank, s);
    }
    static constexpr collective_step all_gather_step(int n, int rank, int s) noexcept {
        if (s == n - 1) return wait(n, rank, n);
        return {step_kind::copy, (rank + n - 1 - s) % n, one_rank((rank + n - 1) % n), s};
    }
};

} // namespace trireme
