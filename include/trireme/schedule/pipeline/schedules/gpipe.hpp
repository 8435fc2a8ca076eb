// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>

#include <cstdint>

namespace trireme {

/// Schedule: all micro-batches forward, then all backward.
///
/// Phases: forward, backward. Bubble: (p - 1) / (m + p - 1), for p roles and m micro-batches. Peak: the values of all m
/// micro-batches on each role. Wins hardly ever: it waits as long as one_f_one_b, and keeps more; its order is the
/// simplest. Source: Huang et al., "GPipe", 2019.
struct gpipe {
    static constexpr char const* name = "gpipe";
    static constexpr int chunks = 1;

    TRIREME_COLD static constexpr int write(int, int micro_batches, int, scheduled_work* out) {
        int n = 0;
        for (auto const kind : {task_kind::forward, task_kind::backward})
            for (int m = 0; m < micro_batches; ++m) out[n++] = {kind, 0, static_cast<std::uint16_t>(m)};
        return n;
    }
};

} // namespace trireme
