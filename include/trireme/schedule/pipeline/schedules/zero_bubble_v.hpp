// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/schedules/v_shape.hpp>

namespace trireme {

/// Schedule: two stages a role in the shape of a V, without waiting, and no more memory than one_f_one_b.
///
/// Phases: role 0 goes 2 p - 1 times forward through its first stage, by then the first micro-batch has come back up;
/// then forward, backward_input and backward_weights in turn, through both stages; at the end backward_weights fills
/// the gaps. Bubble: none of a role's own time where the three take equally long and m >= 2 p; a step alone takes 3 m +
/// (p - 1) / 2 (a stage is half of one of one_f_one_b). Peak: min(2 p, 2 m) values of a stage on every role, as much as
/// one_f_one_b's p on role 0. Wins nearly always where halves of backward can be done apart and the two ends of a
/// network fit on one role. Values and gradients of one boundary keep their order, those of the two stages of a role do
/// not: over counters it runs, over messages in one queue and rendezvous most shapes are refused (verify: mismatch).
/// Source: Qi et al., "Pipeline parallelism with controllable memory", 2024; the same as ZB-V in
/// "Zero bubble pipeline parallelism", 2024.
struct zero_bubble_v : detail::v_shape<zero_bubble_v> {
    static constexpr char const* name = "zero_bubble_v";
    static constexpr detail::v_block block = {3, 3, 3, 3};
    /// Values of stages that a role keeps at most.
    static constexpr int most_frames(int roles) { return 2 * roles; }
};

} // namespace trireme
