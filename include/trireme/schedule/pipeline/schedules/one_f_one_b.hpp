// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>

#include <algorithm>
#include <cstdint>

namespace trireme {

/// Schedule: forward until the first micro-batch comes back, then one forward, one backward.
///
/// Phases: p - 1 - r forwards on role r, forward and backward in turn, the backwards that are left. Bubble: that of
/// gpipe, (p - 1) / (m + p - 1). Peak: the values of min(p - r, m) micro-batches on role r, as many as there are stages
/// from there to the end. Wins nearly always over gpipe, whose time it has in the memory of p micro-batches; loses
/// against zero_bubble_h1 where halves of backward cost nothing more. Source: Narayanan et al., "PipeDream", 2019;
/// "Memory-efficient pipeline-parallel DNN training", 2021.
struct one_f_one_b {
    static constexpr char const* name = "one_f_one_b";
    static constexpr int chunks = 1;

    TRIREME_COLD static constexpr int write(int roles, int micro_batches, int role, scheduled_work* out) {
        int n = 0, ahead = std::min(roles - 1 - role, micro_batches), back = 0;
        for (int m = 0; m < micro_batches; ++m) {
            out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(m)};
            if (m >= ahead) out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(back++)};
        }
        while (back < micro_batches) out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(back++)};
        return n;
    }
};

} // namespace trireme
