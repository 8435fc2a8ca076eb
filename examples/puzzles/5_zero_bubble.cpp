// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puzzle 5: a cool-down without a bubble.
//
// Backward has two halves. For backward_input the role before waits, for backward_weights nobody does. Here the second
// half follows at once, and at the end, while the step cools down, roles wait for one another. Keep some of the
// backward_weights for then: 4 roles can do 8 micro-batches in 27 units. But a micro-batch is kept until its
// backward_weights, and no role may keep more than `roles` of them.
//
// Say when a backward_weights comes here. So many have been done: f forward, b backward_input, w backward_weights.

#include "puzzle.hpp"

using namespace puzzle;

struct my_zero_bubble {
    static constexpr char const* name = "my_zero_bubble";
    static constexpr int chunks = 1; // stages of a role

    static constexpr int write(int roles, int micro_batches, int role, scheduled_work* out) {
        int n = 0, f = 0, b = 0, w = 0;
        auto const add = [&](task_kind kind, int& count) { out[n++] = {kind, 0, static_cast<std::uint16_t>(count++)}; };
        while (f < std::min(roles - role, micro_batches)) add(task_kind::forward, f);
        while (b < micro_batches) {
            add(task_kind::backward_input, b);
            // your code
            add(task_kind::backward_weights, w);
            // until here
            if (f < micro_batches) add(task_kind::forward, f);
        }
        while (w < micro_batches) add(task_kind::backward_weights, w);
        return n;
    }
};
constexpr int most(int roles, int micro_batches, int) { return std::min(roles, micro_batches); }

static_assert(solved<trains<my_zero_bubble, 4, 8>, trains<my_zero_bubble, 4, 2>,
                     keeps_at_most<my_zero_bubble, 4, 8, most>, lasts_at_most<my_zero_bubble, 4, 8, 27>>);

int main(int argc, char** argv) { return draw<my_zero_bubble, 4, 8>(argc, argv); }
