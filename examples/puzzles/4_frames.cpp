// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puzzle 4: frames.
//
// A frame keeps the values of one micro-batch from its forward task to its backward task. How many frames does role r
// of one_f_one_b need, of p roles and m micro-batches? The compiler counts them for p to 8 and m to 16, and compares.

#include "puzzle.hpp"

using namespace puzzle;

constexpr int my_frames(int p, int m, int r) {
    // your code
    return p + m + r;
    // until here
}

static_assert(solved<counts_frames<my_frames, 1, 16>, counts_frames<my_frames, 2, 16>, counts_frames<my_frames, 3, 16>,
                     counts_frames<my_frames, 4, 16>, counts_frames<my_frames, 5, 16>, counts_frames<my_frames, 6, 16>,
                     counts_frames<my_frames, 7, 16>, counts_frames<my_frames, 8, 16>>);

int main(int argc, char** argv) { return draw<one_f_one_b, 4, 8>(argc, argv, my_frames); }
