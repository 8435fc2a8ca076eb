// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puzzle 1: a ring.
//
// Each of n ranks has a buffer of n chunks; at the end each shall have the sum of all. A rank reads from the rank
// before it only. In each of its first n - 1 steps it adds a chunk of that rank to its own, in each of the next n - 1
// it copies one that is complete. The last step is here already: it waits until the rank behind has done as much.
//
// Write step s of `rank`: {step_kind::reduce, chunk, one_rank(before), after}, or {step_kind::copy, ...}. It begins
// when rank `before` has completed `after` steps. The puzzle is solved when this file compiles.

#include "puzzle.hpp"

using namespace puzzle;

struct my_ring {
    static constexpr char const* name = "my_ring";
    static constexpr schedule all_reduce(int n) { return {name, n, n, n > 1 ? 2 * n - 1 : 0, &step}; }

    static constexpr collective_step step(int n, int rank, int s) {
        if (s == 2 * n - 2) return {step_kind::wait, 0, one_rank((rank + 1) % n), s};
        // your code
        return {};
        // until here
    }
};

static_assert(solved<proved<my_ring, collective::all_reduce, 4>, proved<my_ring, collective::all_reduce, 7>,
                     reads_the_rank_before<my_ring, 7>, takes_at_most<my_ring, collective::all_reduce, 7, 12>>);

int main(int argc, char** argv) { return draw(my_ring::all_reduce(4), argc, argv); }
