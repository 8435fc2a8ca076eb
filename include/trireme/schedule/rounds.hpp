// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/play.hpp>

#include <algorithm>
#include <vector>

namespace trireme {

// A schedule in rounds: what a thread that drives several ranks at once hands over, round by round. A step is in the
// earliest round that comes after the rounds of all it waits for; steps of one round do not touch what another of them
// writes, for no wait orders them and the schedule has been proved free of races.

/// A step that moves data, and its round.
struct round_step {
    int round = 0;
    int rank = 0;
    int index = 0; ///< of the step, on its rank
    collective_step step = {};
};

/// All steps of a schedule that move data, round by round, and within a round by rank; a rank has at most one in each.
/// `with_waits`: those that only wait, too.
inline std::vector<round_step> steps_in_rounds(schedule const& s, bool with_waits = false) {
    std::vector<round_step> all;
    detail::play<int>(s, [&](int rank, int index, collective_step const& step, int ready) {
        if (!reads(step.kind) && !(with_waits && step.kind == step_kind::wait)) return ready;
        all.push_back({ready, rank, index, step});
        return ready + 1;
    });
    std::sort(all.begin(), all.end(), [](round_step const& a, round_step const& b) {
        return a.round != b.round ? a.round < b.round : a.rank < b.rank;
    });
    return all;
}

} // namespace trireme
