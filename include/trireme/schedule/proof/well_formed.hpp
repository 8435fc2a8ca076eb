// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/proof/table.hpp>
#include <trireme/schedule/proof/verdict.hpp>

namespace trireme::detail::proof {

// The first phase of a proof looks at each step by itself: what it names exists. The smallest all-reduce, of one chunk
// on two ranks:
//
//             rank 0                            rank 1
//     step 0  reduce chunk 0 from 1, after 0    idle
//     step 1  idle                              copy chunk 0 from 0, after 1
//     step 2  wait for 1, after 2               idle
//
// This phase sees three steps that are not idle, each with one source, another rank, and with a chunk that is there. It
// refuses (out_of_range) `copy chunk 1`, for there is none, and a copy by rank 1 from rank 1. Whether step 1 comes too
// early, or rank 0 waits for ever, are questions for later phases.

/// True if a step of `rank` may have `list` for its sources or destinations; `reading` takes one at least.
constexpr bool list_fits(table const& s, rank_list const& list, int rank, bool reading) noexcept {
    if (list.count < (reading ? 1 : 0) || list.count >= s.ranks) return false;
    if (list.count == 0) return true;
    int const modulus = list.modulus == 0 ? s.ranks : list.modulus;
    bool fits = modulus > 0 && modulus <= s.ranks && list.first >= 0 && (list.modulus != 0 || list.first < s.ranks) &&
                list.first <= 2 * s.ranks && list.base >= 0 && list.base <= 2 * s.ranks && list.scale > 0 &&
                list.scale <= s.ranks && (list.count < 2 || (list.stride >= 0 && list.stride < s.ranks));
    for (int k = 0; fits && k < list.count; ++k) fits = list.at(k, s.ranks) != rank;
    return fits;
}

/// Phase 1: every step names what exists.
constexpr verdict well_formed(table const& s) noexcept {
    for (int r = 0; r < s.ranks; ++r)
        for (int i = 0; i < s.steps; ++i) {
            auto const& step = s.at(r, i);
            if (step.kind == step_kind::idle) continue;
            bool const moves = reads(step.kind);
            bool const fits =
                step.after >= 0 && list_fits(s, step.sources, r, moves) && list_fits(s, step.destinations, r, false) &&
                (step.destinations.count == 0 || step.kind == step_kind::reduce) &&
                (step.kind != step_kind::copy || step.sources.count == 1) &&
                (!moves || (s.goal != collective::barrier && step.chunk.first >= 0 && step.chunk.first < s.chunks &&
                            step.chunk.count >= 1 && step.chunk.count <= s.chunks)) &&
                step.source_chunk >= -1 && step.source_chunk < s.chunks;
            if (!fits) return {schedule_fault::out_of_range, r, i, step.chunk.first};
            if (step.source_chunk != -1 && (s.goal != collective::all_to_all || step.chunk.count != 1))
                return {schedule_fault::elsewhere, r, i, step.chunk.first};
        }
    return {};
}

} // namespace trireme::detail::proof
