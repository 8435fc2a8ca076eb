// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/program.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

// A training step on numbers that show what they were made of, for tests that execute step programs.
namespace step_numbers {
using namespace trireme;

inline std::uint64_t made_of(std::initializer_list<std::uint64_t> parts) {
    std::uint64_t h = 0x9E3779B97F4A7C15u;
    for (auto const p : parts) {
        h = (h ^ p) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    return h;
}

enum name : std::uint64_t {
    is_input = 1,
    is_label,
    is_forward,
    is_loss,
    is_input_gradient,
    is_weight_gradient,
    is_sum,
    is_reduced,
    is_updated,
    is_measured,
    is_norm,
    is_scaled
};

/// A micro-batch leaves this in a stage: its input, its output, the gradient by that.
struct frame {
    std::uint64_t x = 11, y = 12, dy = 13;
};

/// Executes a task that computes. `slot`: where the gradient goes that is sent; `sum`: of the stage's gradients, or of
/// what is evaluated in the last one.
inline void compute(step_task const& t, std::size_t stage, std::size_t stages, frame& f, std::uint64_t* slot,
                    std::uint64_t& sum) {
    bool const input = gives_input(t.kind) || t.kind == task_kind::train, last = stage + 1 == stages;
    if (goes_forward(t.kind) || t.kind == task_kind::evaluate) {
        if (stage == 0) f.x = made_of({is_input, t.micro_batch});
        f.y = made_of({is_forward, stage, t.micro_batch, f.x});
    }
    if (t.kind == task_kind::evaluate && last) sum = made_of({is_sum, sum, f.y});
    if (input && last) f.dy = made_of({is_loss, made_of({is_label, t.micro_batch}), f.y});
    if (t.scales) f.dy = made_of({is_scaled, f.dy});
    if (input && stage > 0) *slot = made_of({is_input_gradient, stage, t.micro_batch, f.x, f.y, f.dy});
    if (gives_weights(t.kind))
        sum = made_of({is_sum, sum, made_of({is_weight_gradient, stage, t.micro_batch, f.x, f.y, f.dy})});
}

/// The sums of all stages, reckoned from what a training step is, or an evaluation.
inline std::vector<std::uint64_t> sums_of(std::size_t stages, std::size_t micro_batches, bool evaluation = false) {
    std::vector<std::uint64_t> sums(stages, 0);
    for (std::uint64_t m = 0; m < micro_batches; ++m) {
        std::vector<std::uint64_t> x(stages + 1);
        x[0] = made_of({is_input, m});
        for (std::uint64_t s = 0; s < stages; ++s) x[s + 1] = made_of({is_forward, s, m, x[s]});
        if (evaluation) {
            sums[stages - 1] = made_of({is_sum, sums[stages - 1], x[stages]});
            continue;
        }
        auto dy = made_of({is_scaled, made_of({is_loss, made_of({is_label, m}), x[stages]})});
        for (auto s = stages; s-- > 0;) {
            sums[s] = made_of({is_sum, sums[s], made_of({is_weight_gradient, s, m, x[s], x[s + 1], dy})});
            dy = made_of({is_input_gradient, s, m, x[s], x[s + 1], dy});
        }
    }
    return sums;
}

} // namespace step_numbers
