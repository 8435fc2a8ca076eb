// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/schedules/v_shape.hpp>

namespace trireme {

/// Schedule: two stages a role in the shape of a V, a third of one_f_one_b's memory.
///
/// Phases: as zero_bubble_v, with fewer micro-batches on their way. Bubble: at most (2 p / 3)(F + B + W); where F, B
/// and W are unequal it grows with m, because the block has no slack. Peak: 2 ((p + 4) / 3) values of a stage on every
/// role, rounded down; a stage is half of one of one_f_one_b, which keeps p. Wins where memory is all that counts, and
/// still waits less than one_f_one_b. Values and gradients of one boundary keep their order, those of the two stages of
/// a role do not: over counters it runs, over messages in one queue and rendezvous most shapes are refused (verify:
/// mismatch). Source: Qi et al., "Pipeline parallelism with controllable memory", 2024; V-Min.
struct v_min : detail::v_shape<v_min> {
    static constexpr char const* name = "v_min";
    static constexpr detail::v_block block = {1, 1, 1, 1};
    /// Values of stages that a role keeps at most.
    static constexpr int most_frames(int roles) { return 2 * ((roles + 4) / 3); }
};

} // namespace trireme
