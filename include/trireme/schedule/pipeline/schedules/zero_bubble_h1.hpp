// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>

#include <algorithm>
#include <cstdint>

namespace trireme {

namespace detail {

/// Writes `ahead` forwards, then backward_input and forward in turn. A backward_weights goes between these two from the
/// moment at which the values of `most` micro-batches are kept, and behind each backward_input when all are forward.
TRIREME_COLD constexpr int write_zero_bubble(int micro_batches, int ahead, int most, scheduled_work* out) {
    int n = 0, f = 0, b = 0, w = 0;
    auto const add = [&](task_kind kind, int& count) { out[n++] = {kind, 0, static_cast<std::uint16_t>(count++)}; };
    while (f < std::min(ahead, micro_batches)) add(task_kind::forward, f);
    while (b < micro_batches) {
        add(task_kind::backward_input, b);
        if (f == micro_batches || f - w == most) add(task_kind::backward_weights, w);
        if (f < micro_batches) add(task_kind::forward, f);
    }
    while (w < micro_batches) add(task_kind::backward_weights, w);
    return n;
}

} // namespace detail

/// Schedule: one_f_one_b whose gradients by the weights come later, where a role would wait.
///
/// Phases: role r goes p - r times forward, then backward_input and forward in turn; backward_weights begins when p
/// micro-batches are kept, r micro-batches behind. Bubble: (p - 1)(F + B - W) for F, B, W of forward, backward_input,
/// backward_weights, a third of one_f_one_b's where the three are equal: a step takes 3 m + p - 1 then, for m >= p.
/// Peak: min(p, m) on every role, as one_f_one_b has at role 0.
/// Wins over one_f_one_b at the same peak, without any price but halves of backward that can be done apart.
/// Source: Qi et al., "Zero bubble pipeline parallelism", 2024, ZB-H1.
struct zero_bubble_h1 {
    static constexpr char const* name = "zero_bubble_h1";
    static constexpr int chunks = 1;

    TRIREME_COLD static constexpr int write(int roles, int micro_batches, int role, scheduled_work* out) {
        return detail::write_zero_bubble(micro_batches, roles - role, roles, out);
    }
};

} // namespace trireme
