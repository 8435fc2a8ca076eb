// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puzzle 7: a deadlock.
//
// Each rank has a block of a buffer, and shall have all of them: in each step it copies a chunk of the rank before it,
// first that one's own, then the one that it has got from the rank before. A step begins when the rank before has
// completed `after` steps of its own. Here nobody ever begins: each waits for another one, all round the ring. Mend it.

#include "puzzle.hpp"

using namespace puzzle;

struct my_gather {
    static constexpr char const* name = "my_gather";
    static constexpr schedule all_gather(int n) { return {name, n, n, n > 1 ? n : 0, &step}; }

    static constexpr collective_step step(int n, int rank, int s) {
        if (s == n - 1) return {step_kind::wait, 0, one_rank((rank + 1) % n), s}; // until the rank behind has read all
        int const before = (rank + n - 1) % n;
        // your code
        int const after = s + 1;
        // until here
        return {step_kind::copy, (rank + n - 1 - s) % n, one_rank(before), after};
    }
};

static_assert(solved<proved<my_gather, collective::all_gather, 4>, proved<my_gather, collective::all_gather, 7>>);

int main(int argc, char** argv) { return draw(my_gather::all_gather(4), argc, argv); }
