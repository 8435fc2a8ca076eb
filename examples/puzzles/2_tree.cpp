// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puzzle 2: a tree.
//
// Rank 0 shall have the sum of n buffers. What is here is right, but rank 0 reads from all others, one after the other:
// n - 1 messages take n - 1 units of time. In a tree, pairs of ranks add at once, then pairs of pairs, and so on, so
// that 8 ranks need 3 units, and 5 ranks, too. A rank that has been read from must wait until that is done.
//
// Write how many steps each rank has, and step s of `rank`; {} does nothing.

#include "puzzle.hpp"

using namespace puzzle;

struct my_tree {
    static constexpr char const* name = "my_tree";
    static constexpr schedule reduce(int n, int root = 0) { return {name, n, 1, steps(n), &step, root}; }

    // your code
    static constexpr int steps(int) { return 2; }
    static constexpr collective_step step(int n, int rank, int s) {
        if (rank == 0 && s == 0) return {step_kind::reduce, 0, all_others(0, n), 0};
        if (rank != 0 && s == 1) return {step_kind::wait, 0, one_rank(0), 1};
        return {};
    }
    // until here
};

static_assert(
    solved<proved<my_tree, collective::reduce, 8>, proved<my_tree, collective::reduce, 5>,
           takes_at_most<my_tree, collective::reduce, 8, 3>, takes_at_most<my_tree, collective::reduce, 5, 3>>);

int main(int argc, char** argv) { return draw(my_tree::reduce(8), argc, argv); }
