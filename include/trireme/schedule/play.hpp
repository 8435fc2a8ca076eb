// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/scratch.hpp>
#include <trireme/schedule/collective/schedule.hpp>

#include <cstddef>

namespace trireme::detail {

/// Plays a schedule through, each step as soon as its rank and its sources are so far: `end_of(rank, i, step, ready)`
/// is told when it can begin and answers when it is over. Steps that are never reached are not asked for, so that
/// schedules that deadlock or read from ranks that do not exist can be played as far as they go.
///
/// Cost: ranks x steps x sources operations, for schedules that deadlock at most ranks times as many.
template<class Time, collective_schedule S, class EndOf>
constexpr void play(S const& s, EndOf&& end_of) {
    auto const cell = [&](int rank, int step) {
        return static_cast<std::size_t>(rank) * static_cast<std::size_t>(s.steps) + static_cast<std::size_t>(step);
    };
    if (s.ranks < 1 || s.steps < 1) return;
    scratch<Time> end(cell(s.ranks, 0));
    scratch<int> done(static_cast<std::size_t>(s.ranks)); // steps of each rank
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < s.ranks; ++r)
            for (auto& i = done[static_cast<std::size_t>(r)]; i < s.steps; ++i, moved = true) {
                collective_step const step = s.at(r, i);
                Time ready = i == 0 ? Time{} : end[cell(r, i - 1)];
                bool reached = true;
                for (int k = 0; reached && step.kind != step_kind::idle && k < step.sources.count; ++k) {
                    int const q = step.sources.at(k, s.ranks);
                    reached = q >= 0 && q < s.ranks && done[static_cast<std::size_t>(q)] >= step.after;
                    if (!reached || step.after <= 0) continue;
                    auto const then = end[cell(q, step.after - 1)];
                    ready = then > ready ? then : ready;
                }
                if (!reached) break;
                end[cell(r, i)] = end_of(r, i, step, ready);
            }
    }
}

} // namespace trireme::detail
