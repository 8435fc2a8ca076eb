// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puzzle 6: a V.
//
// Each role has two stages, its chunks 0 and 1. Here role r has stages r and roles + r, so that values go from the last
// role back to role 0 in the middle of the network. In a V they go down, role by role, and up again, and the role with
// the first layers has the last ones, too. Write which stage chunk 0 or 1 of `role` is; stages are counted from 0.

#include "puzzle.hpp"

using namespace puzzle;

struct my_v {
    static constexpr char const* name = "my_v";
    static constexpr int chunks = 2; // stages of a role

    static constexpr int stage(int roles, int role, int chunk) {
        // your code
        return chunk * roles + role;
        // until here
    }

    /// All forward through chunk 0, all through chunk 1; then back through chunk 1, and through chunk 0.
    static constexpr int write(int, int micro_batches, int, scheduled_work* out) {
        int n = 0;
        for (int pass = 0; pass < 4; ++pass)
            for (int m = 0; m < micro_batches; ++m)
                out[n++] = {pass < 2 ? task_kind::forward : task_kind::backward,
                            static_cast<std::uint8_t>(pass == 1 || pass == 2), static_cast<std::uint16_t>(m)};
        return n;
    }
    static constexpr int slots(int, int micro_batches) { return micro_batches; } // gradients that wait to be taken
};

static_assert(solved<is_a_v<my_v, 4>, is_a_v<my_v, 7>, is_a_v<my_v, 1>, trains<my_v, 4, 4>>);

int main(int argc, char** argv) { return draw<my_v, 4, 4>(argc, argv); }
