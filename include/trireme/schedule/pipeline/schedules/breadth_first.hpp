// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>

#include <algorithm>
#include <cstdint>

namespace trireme {

/// Schedule: all micro-batches forward through a role's first stage, then all through its second, and so on; then back
/// likewise. Each role has C stages: chunk * roles + role.
///
/// Phases: C times m forward, C times m backward. Bubble: (p - 1) / (C m + p - 1) for m >= p.
/// Peak: C m values of a stage, those of all micro-batches, as of gpipe.
/// Wins where micro-batches are few and parameters are sharded over the replicas: each stage's are gathered twice a
/// step, whatever m is. Rendezvous deadlock from m = 2 p on. Source: Lamy-Poirier, "Breadth-first pipeline
/// parallelism", 2022.
template<int C>
struct breadth_first {
private:
    static_assert(C >= 1 && C <= max_chunks, "breadth_first<C>: a role has 1 to max_chunks stages");
    static constexpr detail::name_with_chunks full_name{"breadth_first", C};

public:
    static constexpr char const* name = full_name.text;
    static constexpr int chunks = C;

    TRIREME_COLD static constexpr int write(int, int micro_batches, int, scheduled_work* out) {
        int n = 0;
        for (auto const kind : {task_kind::forward, task_kind::backward})
            for (int c = 0; c < C; ++c)
                for (int m = 0; m < micro_batches; ++m)
                    out[n++] = {kind, static_cast<std::uint8_t>(kind == task_kind::forward ? c : C - 1 - c),
                                static_cast<std::uint16_t>(m)};
        return n;
    }
    /// Gradients of all micro-batches leave a stage before the stage before it, which may be on the same role, goes
    /// back.
    static constexpr int slots(int, int micro_batches) { return C == 1 ? default_slots : std::max(2, micro_batches); }
};

} // namespace trireme
