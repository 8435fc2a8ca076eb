// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>

namespace trireme {

/// Direct all-reduce: rank r reduces chunk r from everybody at once, then everybody copies it from r.
///
/// - Phases: one reduction with n - 1 sources; n - 1 copies; a wait until all have read.
/// - Cost per rank: 2 (n - 1) reads, 2 (n - 1)/n of the buffer, three rounds of waiting whatever n is.
/// - Wins: shared memory, where every peer is equally near. Loses: networks, for each rank talks to all others.
/// - Deterministic: chunk r is added in the order r, r + 1, ..., r - 1; all ranks hold the same bits.
struct direct {
    static constexpr char const* name = "direct";

    static constexpr schedule all_reduce(int ranks) noexcept {
        return {name, ranks, ranks, ranks > 1 ? ranks + 1 : 0, &step};
    }

    /// Direct reduce-scatter: the reduction alone, then a wait until all have read. Chunk r ends up complete on rank r,
    /// with the bits of all_reduce.
    static constexpr schedule reduce_scatter(int ranks) noexcept {
        return {name, ranks, ranks, ranks > 1 ? 2 : 0, &scatter_step};
    }

private:
    static constexpr collective_step step(int n, int rank, int s) noexcept {
        if (s == 0) return {step_kind::reduce, rank, all_others(rank, n), 0};
        if (s < n) return {step_kind::copy, (rank + s) % n, one_rank((rank + s) % n), 1};
        return {step_kind::wait, 0, all_others(rank, n), n};
    }
    static constexpr collective_step scatter_step(int n, int rank, int s) noexcept {
        if (s == 0) return {step_kind::reduce, rank, all_others(rank, n), 0};
        return {step_kind::wait, 0, all_others(rank, n), 1};
    }
};

} // namespace trireme
