// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puzzle 8: a lost gradient.
//
// A pipeline that works in waves: as many micro-batches as there are roles go forward, then back, then the next ones,
// so that no role keeps more values than that. It trains, and the loss falls, but the gradients of some micro-batches
// are added nowhere. For which numbers, and why? Mend it, so that it is right for all of them.

#include "puzzle.hpp"

using namespace puzzle;

struct my_waves {
    static constexpr char const* name = "my_waves";
    static constexpr int chunks = 1; // stages of a role

    static constexpr int write(int roles, int micro_batches, int /*role*/, scheduled_work* out) {
        int n = 0, f = 0, b = 0;
        auto const forward = [&] { out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(f++)}; };
        auto const backward = [&] { out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(b++)}; };
        // your code
        while (b < micro_batches) { // the last wave may be a smaller one
            for (int i = 0; i < roles && f < micro_batches; ++i) forward();
            while (b < f) backward();
        }
        // until here
        return n;
    }
};
constexpr int most(int roles, int micro_batches, int /*role*/) { return std::min(roles, micro_batches); }

static_assert(solved<trains<my_waves, 4, 8>, trains<my_waves, 4, 6>, trains<my_waves, 4, 1>, trains<my_waves, 1, 4>,
                     trains<my_waves, 5, 9>, keeps_at_most<my_waves, 4, 6, most>>);

int main(int argc, char** argv) { return draw<my_waves, 4, 6>(argc, argv); }
