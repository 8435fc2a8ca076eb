// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/schedule/pipeline/schedules/zero_bubble_h1.hpp>

namespace trireme {

/// Schedule: zero_bubble_h1 with more micro-batches forward at first, so that no role ever waits once it has begun.
///
/// Phases: role r goes 2 (p - r) - 1 times forward, then backward_input and forward in turn; backward_weights begins
/// when 2 p - 1 micro-batches are kept. Bubble: (p - 1)(F + B - 2 W) of each role's own time, none where the three are
/// equal and m >= 2 p - 1. Role r begins and ends r later than role 0, which steps behind one another hide only where
/// roles do not meet between them: a step alone takes 3 m + p - 1.
/// Peak: min(2 p - 1, m), nearly twice one_f_one_b's.
/// Wins where memory is left and the norm of all gradients is not asked for. Rendezvous deadlock from m = 2 p on.
/// Source: Qi et al., "Zero bubble pipeline parallelism", 2024, ZB-H2.
struct zero_bubble_h2 {
    static constexpr char const* name = "zero_bubble_h2";
    static constexpr int chunks = 1;

    TRIREME_COLD static constexpr int write(int roles, int micro_batches, int role, scheduled_work* out) {
        return detail::write_zero_bubble(micro_batches, 2 * (roles - role) - 1, 2 * roles - 1, out);
    }
};

} // namespace trireme
