// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puzzle 3: one forward, one back.
//
// The order of a role of a pipeline. What is here goes forward with all micro-batches, and back with all: role 0 keeps
// the values of all of them. Let a role go back as soon as the first gradient can be there, then forward and back in
// turn: role r of p then keeps p - r micro-batches at most, and the step is no longer.
//
// Write the tasks of `role` in order, and return how many there are.

#include "puzzle.hpp"

using namespace puzzle;

struct my_schedule {
    static constexpr char const* name = "my_schedule";
    static constexpr int chunks = 1; // stages of a role

    static constexpr int write(int roles, int micro_batches, int role, scheduled_work* out) {
        int n = 0, f = 0, b = 0;
        auto const forward = [&] { out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(f++)}; };
        auto const backward = [&] { out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(b++)}; };
        // your code
        while (f < micro_batches) forward();
        while (b < micro_batches) backward();
        // until here
        return n;
    }
};
constexpr int most(int roles, int micro_batches, int role) { return std::min(roles - role, micro_batches); }

static_assert(solved<trains<my_schedule, 4, 8>, trains<my_schedule, 4, 2>, keeps_at_most<my_schedule, 4, 8, most>,
                     keeps_at_most<my_schedule, 3, 5, most>, lasts_at_most<my_schedule, 4, 8, 33>>);

int main(int argc, char** argv) { return draw<my_schedule, 4, 8>(argc, argv); }
