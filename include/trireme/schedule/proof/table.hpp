// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>

#include <cstddef>

namespace trireme::detail::proof {

constexpr std::size_t index(int i) noexcept { return static_cast<std::size_t>(i); }

/// Places for `a` rows of `b`, and one more: an array has at least one.
constexpr std::size_t count(int a, int b) noexcept { return index(a) * index(b) + 1; }

/// True if the chunks of a collective belong to ranks.
constexpr bool belongs_to_ranks(collective goal) noexcept {
    return goal == collective::reduce_scatter || goal == collective::all_gather || goal == collective::gather ||
           goal == collective::scatter || goal == collective::all_to_all;
}

/// A schedule as all phases of its proof read it: step by step in a table, which the caller owns. A cell is a step of a
/// rank, rank * steps + step; a place is a chunk in the buffer of a rank, rank * chunks + chunk.
struct table {
    collective goal;
    int ranks, chunks, steps;
    int root = 0;
    std::size_t words; ///< of a set of ranks, a bit each
    collective_step const* cells;
    int const* owners; ///< of the chunks, where they belong to ranks

    template<collective_schedule S>
    constexpr table(collective what, S const& s, collective_step const* all, int const* owner_of) noexcept
        : goal(what), ranks(s.ranks), chunks(s.chunks), steps(s.steps), words(index((s.ranks + 63) / 64)), cells(all),
          owners(owner_of) {
        if constexpr (requires { s.root; }) root = s.root;
    }

    /// Writes down what `cells` and `owners` point to.
    template<collective_schedule S>
    static constexpr void fill(collective goal, S const& s, collective_step* cells, int* owners) {
        for (int r = 0; r < s.ranks; ++r)
            for (int i = 0; i < s.steps; ++i) cells[index(r) * index(s.steps) + index(i)] = s.at(r, i);
        if (!belongs_to_ranks(goal)) return;
        for (int c = 0; c < s.chunks; ++c) {
            if constexpr (requires { s.owner(c); })
                owners[c] = s.owner(c);
            else
                owners[c] = c / (s.chunks / s.ranks);
        }
    }

    constexpr collective_step const& at(int rank, int step) const noexcept {
        return cells[index(rank) * index(steps) + index(step)];
    }
};

} // namespace trireme::detail::proof
