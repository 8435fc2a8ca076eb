// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/scratch.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/proof/conflicts.hpp>
#include <trireme/schedule/proof/table.hpp>
#include <trireme/schedule/proof/verdict.hpp>

namespace trireme::detail::proof {

// The fifth phase of a proof asks of each conflict whether the later rank knows, through others, that the earlier
// access is over. The chunk that goes from rank 0 to rank 1 and on to rank 2, of which the phase before leaves one
// conflict, rank 1's step 0 before rank 0 leaves:
//
//             rank 0                 rank 1                          rank 2
//     step 0  idle                   copy chunk 0 from 0, after 0    idle
//     step 1  idle                   idle                            copy chunk 0 from 1, after 1
//     step 2  wait for 2, after 2    wait for 2, after 2             idle
//
// Rank 2 knows nothing of rank 1 before its step 1, and behind it that rank 1 has completed a step. Rank 0 waits for
// two steps of rank 2, so that it knows that, too: rank 1 has read its chunk, and it may leave. With `after 1` it would
// wait for a rank that has not heard of rank 1 yet, and perhaps leave too early (overwritten: rank 1, step 0, chunk 0,
// the read that is disturbed).

/// The first access of `a` to `chunk` of `owner` (-1: to any) of which one does not know that it is over.
constexpr verdict first_unknown(table const& s, int a, int owner, int chunk, int knows) noexcept {
    for (int i = knows > 0 ? knows - 1 : 0; i < s.steps; ++i) {
        auto const& step = s.at(a, i);
        if (!reads(step.kind)) continue;
        bool touches = false;
        for (int k = 0; k < step.sources.count; ++k) touches = touches || step.sources.at(k, s.ranks) == owner;
        for (int k = 0; k < step.destinations.count; ++k)
            touches = touches || step.destinations.at(k, s.ranks) == owner;
        if (touches && (chunk < 0 || step.chunk.has(chunk, s.chunks)))
            return {schedule_fault::overwritten, a, i, chunk < 0 ? step.chunk.first : chunk};
    }
    return {schedule_fault::overwritten, a, s.steps, chunk < 0 ? 0 : chunk};
}

/// Proves that the later rank of every conflict whose earlier one is `a` knows that the earlier access is over.
/// known[q][i] is what q knows of `a` once it has completed i steps, by waiting, directly or through others: 0
/// nothing, 1 that it has entered, 1 + s that s steps are complete.
constexpr verdict resolve(table const& s, int const* order, conflict const* conflicts, int total, int a) {
    bool any = false;
    for (int k = 0; k < total; ++k) any = any || conflicts[k].earlier == a;
    if (!any) return {};
    int const stride = s.steps + 1;
    scratch<int> known_at(count(s.ranks, stride));
    int* const known = known_at.data();
    for (int i = 0; i <= s.steps; ++i) known[a * stride + i] = i + 1;
    for (int number = 0; number < s.ranks * s.steps; ++number) {
        int const cell = order[number], r = cell / s.steps, at = cell + r; // r * stride + step
        if (r == a) continue;
        auto const& step = s.cells[cell];
        int knows = known[at];
        if (step.kind != step_kind::idle)
            for (int k = 0; k < step.sources.count; ++k)
                if (int const theirs = known[step.sources.at(k, s.ranks) * stride + step.after]; theirs > knows)
                    knows = theirs;
        known[at + 1] = knows;
    }
    for (int k = 0; k < total; ++k) {
        auto const& c = conflicts[k];
        if (c.earlier != a) continue;
        // the later rank knows this much after the waits of the later step, or when it leaves
        int const knows = known[c.later * stride + (c.later_step < s.steps ? c.later_step + 1 : s.steps)];
        if (c.earlier_step + 2 <= knows) continue;
        if (s.goal == collective::barrier) return {schedule_fault::unaware, c.later, s.steps, 0};
        if (c.read) return first_unknown(s, a, c.owner, c.chunk, knows);
        return {c.reading ? schedule_fault::too_early : schedule_fault::overwritten, c.later, c.later_step, c.chunk};
    }
    return {};
}

/// Phase 5: that the conflicts whose earlier rank is one of [begin, end) are no races.
constexpr verdict races(table const& s, int const* order, conflict const* all, int total, int begin, int end) {
    verdict v;
    for (int r = begin; v.ok() && r < end; ++r) v = resolve(s, order, all, total, r);
    return v;
}

} // namespace trireme::detail::proof
