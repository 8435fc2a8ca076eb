// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/schedules/v_shape.hpp>

namespace trireme {

/// Schedule: two stages a role in the shape of a V, half of one_f_one_b's memory.
///
/// Phases: as zero_bubble_v, with fewer micro-batches on their way. Bubble: about half of one_f_one_b's, at most
/// (p / 2)(F + B + W). Peak: 2 ((p + 2) / 2) values of a stage on every role, rounded down; a stage is half of one of
/// one_f_one_b, which keeps p.
/// Wins where memory is what limits a micro-batch: one twice as large fits.
/// Values and gradients of one boundary keep their order, those of the two stages of a role do not: over counters it
/// runs, over messages in one queue and rendezvous most shapes are refused (verify: mismatch). Source: Qi et al.,
/// "Pipeline parallelism with controllable memory", 2024; V-Half.
struct v_half : detail::v_shape<v_half> {
    static constexpr char const* name = "v_half";
    static constexpr detail::v_block block = {1, 2, 1, 2};
    /// Values of stages that a role keeps at most.
    static constexpr int most_frames(int roles) { return 2 * ((roles + 2) / 2); }
};

} // namespace trireme
