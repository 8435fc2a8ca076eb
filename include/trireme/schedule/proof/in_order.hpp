// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/scratch.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/proof/table.hpp>
#include <trireme/schedule/proof/verdict.hpp>

namespace trireme::detail::proof {

// The third phase of a proof asks whether messages could carry the schedule, by one queue for each pair of ranks. Two
// chunks of rank 0, broadcast to rank 1:
//
//             rank 0                            rank 1
//     step 0  idle                              copy chunk 0 from 0, after 0
//     step 1  idle                              copy chunk 1 from 0, after 1
//     step 2  wait for 1, after 2               idle
//
// Rank 0 sends chunk 0 when it enters, and chunk 1 when it has completed a step: in the order in which rank 1 takes
// them. With `after 1` in its first step and `after 0` in its second, chunk 1 would stand before chunk 0 in the queue
// (out_of_order). A reduction whose result is written to rank 1 needs a step of rank 1 that waits for it, which takes
// the message (unheard), and nothing may write that chunk afterwards (reused).

/// True if `rank` waits anywhere for step `step` of `other` to be complete.
constexpr bool hears(table const& s, int rank, int other, int step) noexcept {
    for (int i = 0; i < s.steps; ++i) {
        auto const& mine = s.at(rank, i);
        if (mine.kind == step_kind::idle || mine.after <= step) continue;
        for (int k = 0; k < mine.sources.count; ++k)
            if (mine.sources.at(k, s.ranks) == other) return true;
    }
    return false;
}

/// Phase 3: a message lowering posts the send of a chunk when its owner has completed `after` steps, or the writing
/// step if it writes the chunk to others. A rank receives in the order of its steps; what is written to it, in the
/// first step that waits for the writing one. One in-order queue per pair carries that if `after` never falls along
/// the steps of a rank. Sends are awaited before the chunk is written again, and a chunk that was written to others
/// is not written again.
constexpr verdict in_order(table const& s) {
    bool pushes = false;
    for (int cell = 0; cell < s.ranks * s.steps; ++cell) pushes = pushes || s.cells[cell].destinations.count != 0;
    scratch<int> latest(count(1, s.ranks));
    for (int r = 0; r < s.ranks; ++r) {
        latest.fill(0);
        for (int i = 0; i < s.steps; ++i) {
            auto const& step = s.at(r, i);
            if (step.kind == step_kind::idle || (step.kind == step_kind::wait && !pushes)) continue;
            for (int k = 0; k < step.sources.count; ++k) {
                auto& last = latest[index(step.sources.at(k, s.ranks))];
                if (step.after < last) {
                    if (reads(step.kind)) return {schedule_fault::out_of_order, r, i, step.chunk.first};
                    continue;
                }
                last = step.after;
            }
            if (step.destinations.count == 0) continue;
            for (int k = 0; k < step.destinations.count; ++k)
                if (!hears(s, step.destinations.at(k, s.ranks), r, i))
                    return {schedule_fault::unheard, r, i, step.chunk.first};
            for (int later = i + 1; later < s.steps; ++later) {
                auto const& other = s.at(r, later);
                if (!reads(other.kind)) continue;
                for (int j = 0; j < step.chunk.count; ++j)
                    if (int const c = step.chunk.at(j, s.chunks); other.chunk.has(c, s.chunks))
                        return {schedule_fault::reused, r, later, c};
            }
        }
    }
    return {};
}

} // namespace trireme::detail::proof
