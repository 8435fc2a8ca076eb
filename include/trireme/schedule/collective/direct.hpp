// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>

namespace trireme {

/// Direct: every rank deals with every other one itself, in one round.
///
/// - Phases: rank r reduces chunk r from everybody at once, in registers, and writes the sum to everybody; then a wait
///   until all have done so. The other collectives: each rank fetches what it lacks from its owner; then a wait until
///   nobody reads any more.
/// - Cost per rank, all-reduce: n - 1 reads and n - 1 writes, 2 (n - 1)/n of the buffer, two rounds of waiting whatever
///   n is. Every rank reads each number it adds once and writes each sum once per copy: no pass over memory is spare.
/// - Wins: shared memory, where every peer is equally near. Loses: networks, for each rank talks to all others.
/// - Deterministic: chunk r is added in the order r, r + 1, ..., r - 1; all ranks hold the same bits.
struct direct {
    static constexpr char const* name = "direct";

    static constexpr schedule all_reduce(int ranks) noexcept {
        return {name, ranks, ranks, ranks > 1 ? 2 : 0, &all_reduce_step};
    }

    /// The reduction alone. Chunk r ends up complete on rank r, with the bits of all_reduce.
    static constexpr schedule reduce_scatter(int ranks) noexcept {
        return {name, ranks, ranks, ranks > 1 ? 2 : 0, &reduce_scatter_step};
    }
    static constexpr schedule all_gather(int ranks) noexcept {
        return {name, ranks, ranks, ranks > 1 ? ranks : 0, &all_gather_step};
    }
    static constexpr schedule broadcast(int ranks, int root = 0) noexcept {
        return {name, ranks, 1, ranks > 1 ? 2 : 0, &broadcast_step, root};
    }
    /// Each rank adds its chunk for the root, so that all of them work; the buffers of the others end as scratch.
    static constexpr schedule reduce(int ranks, int root = 0) noexcept {
        return {name, ranks, ranks, ranks > 1 ? 2 : 0, &reduce_step, root};
    }
    static constexpr schedule gather(int ranks, int root = 0) noexcept {
        return {name, ranks, ranks, ranks > 1 ? ranks : 0, &gather_step, root, true};
    }
    static constexpr schedule scatter(int ranks, int root = 0) noexcept {
        return {name, ranks, ranks, ranks > 1 ? 2 : 0, &scatter_step, root, true};
    }
    static constexpr schedule all_to_all(int ranks) noexcept {
        return {name, ranks, ranks, ranks > 1 ? ranks : 0, &all_to_all_step};
    }
    static constexpr schedule barrier(int ranks) noexcept { return {name, ranks, 1, ranks > 1 ? 1 : 0, &barrier_step}; }

private:
    static constexpr collective_step wait(rank_list for_whom, int after) noexcept {
        return {step_kind::wait, 0, for_whom, after};
    }

    static constexpr collective_step all_reduce_step(int n, int rank, int s) noexcept {
        if (s == 0) return {step_kind::reduce, rank, all_others(rank, n), 0, all_others(rank, n)};
        return wait(all_others(rank, n), 1);
    }
    static constexpr collective_step reduce_scatter_step(int n, int rank, int s) noexcept {
        if (s == 0) return {step_kind::reduce, rank, all_others(rank, n), 0};
        return wait(all_others(rank, n), 1);
    }
    static constexpr collective_step all_gather_step(int n, int rank, int s) noexcept {
        if (s == n - 1) return wait(all_others(rank, n), n - 1);
        int const owner = (rank + 1 + s) % n;
        return {step_kind::copy, owner, one_rank(owner), 0};
    }
    static constexpr collective_step broadcast_step(int n, int rank, int s) noexcept {
        if (rank == 0) return s == 0 ? collective_step{} : wait(all_others(0, n), 1);
        return s == 0 ? collective_step{step_kind::copy, 0, one_rank(0), 0} : collective_step{};
    }
    static constexpr collective_step reduce_step(int n, int rank, int s) noexcept {
        if (s == 0) return {step_kind::reduce, rank, all_others(rank, n), 0, rank == 0 ? rank_list{} : one_rank(0)};
        return wait(all_others(rank, n), 1);
    }
    static constexpr collective_step gather_step(int n, int rank, int s) noexcept {
        if (rank == 0)
            return s == n - 1 ? collective_step{} : collective_step{step_kind::copy, s + 1, one_rank(s + 1), 0};
        return s == n - 1 ? wait(one_rank(0), rank) : collective_step{};
    }
    static constexpr collective_step scatter_step(int n, int rank, int s) noexcept {
        if (rank == 0) return s == 0 ? collective_step{} : wait(all_others(0, n), 1);
        return s == 0 ? collective_step{step_kind::copy, rank, one_rank(0), 0} : collective_step{};
    }
    static constexpr collective_step all_to_all_step(int n, int rank, int s) noexcept {
        if (s == n - 1) return wait(all_others(rank, n), n - 1);
        int const peer = (rank + 1 + s) % n;
        return {step_kind::copy, peer, one_rank(peer), 0, {}, rank};
    }
    static constexpr collective_step barrier_step(int n, int rank, int) noexcept {
        return wait(all_others(rank, n), 0);
    }
};

} // namespace trireme
