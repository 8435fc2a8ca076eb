// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>

namespace trireme {

/// Ring all-reduce: each rank pulls from its predecessor only.
///
/// - Phases: reduce-scatter (n - 1 steps: every chunk goes round once and gathers all contributions), then all-gather
///   (n - 1 steps: every finished chunk goes round once more).
/// - Cost per rank: 2 (n - 1) messages, 2 (n - 1)/n of the buffer read from peers, which is the least possible.
/// - Wins: large buffers, links between neighbours only. Loses: small buffers, for its latency grows with n.
/// - Deterministic: each chunk is added in one fixed order, which depends on n; all ranks hold the same bits.
/// - Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.
struct ring {
    static constexpr char const* name = "ring";

    static constexpr schedule all_reduce(int ranks) noexcept {
        return {name, ranks, ranks, ranks > 1 ? 2 * ranks - 1 : 0, &step};
    }

private:
    static constexpr collective_step step(int n, int rank, int s) noexcept {
        auto const previous = (rank + n - 1) % n;
        auto const next = (rank + 1) % n;
        if (s < n - 1) return {step_kind::reduce, (rank + 2 * n - 1 - s) % n, one_rank(previous), s};
        if (s < 2 * n - 2) return {step_kind::copy, (rank + 2 * n - 1 - s) % n, one_rank(previous), s};
        return {step_kind::wait, 0, one_rank(next), 2 * n - 2}; // until the successor has read what it needs
    }
};

} // namespace trireme
