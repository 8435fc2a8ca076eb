// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>

#include <algorithm>
#include <cstdint>

namespace trireme {

/// Schedule: one forward, one backward, over C stages of each role: stage chunk * roles + role. Micro-batches go in
/// groups of as many as there are roles, one group through all stages before the next. A last group that is smaller
/// keeps the places of those that it lacks.
///
/// Phases: role r goes forward 2 (p - 1 - r) + (C - 1) p times, then forward and backward in turn, then only backward.
/// Bubble: (p - 1) / (C m + p - 1) for m a multiple of p, else up to that of the next multiple.
/// Peak: min(C m, 2 (p - 1) + (C - 1) p + 1) values of a stage at role 0, if m is a multiple of p; a stage is 1/C of
/// one of one_f_one_b.
/// Wins over one_f_one_b where micro-batches are few, for C times the messages and more memory. Rendezvous deadlock
/// from m = 2 p on; counters and messages carry it for all p and m. Source: Narayanan et al., "Efficient large-scale
/// language model training on GPU clusters", 2021.
template<int C>
struct interleaved {
private:
    static_assert(C >= 1 && C <= max_chunks, "interleaved<C>: a role has 1 to max_chunks stages");
    static constexpr detail::name_with_chunks full_name{"interleaved", C};

public:
    static constexpr char const* name = full_name.text;
    static constexpr int chunks = C;

    TRIREME_COLD static constexpr int write(int roles, int micro_batches, int role, scheduled_work* out) {
        int const groups = (micro_batches + roles - 1) / roles, all = groups * roles * C,
                  ahead = std::min((roles - role - 1) * 2 + (C - 1) * roles, all);
        int n = 0, f = 0, b = 0;
        auto const add = [&](task_kind kind, int i) {
            int const group = i / (roles * C), in_group = i % (roles * C), chunk = in_group / roles,
                      micro_batch = group * roles + in_group % roles;
            if (micro_batch < micro_batches) // else one that would make the last group whole
                out[n++] = {kind, static_cast<std::uint8_t>(kind == task_kind::forward ? chunk : C - 1 - chunk),
                            static_cast<std::uint16_t>(micro_batch)};
        };
        while (f < ahead) add(task_kind::forward, f++);
        while (f < all) {
            add(task_kind::forward, f++);
            add(task_kind::backward, b++);
        }
        while (b < all) add(task_kind::backward, b++);
        return n;
    }
};

} // namespace trireme
