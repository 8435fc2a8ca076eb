// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/networks.hpp>

#include <trireme/trireme.hpp>

// Networks some of whose rows have one row's parameters.
namespace test_tying {
using namespace trireme;
using test_networks::conv3;
using test_networks::shard_norm;

/// The first row with parameters and the last one, of 49 classes.
using first_and_last = network<input<1, 28, 28>, avg_pool2d<4>, flatten, linear<49>, hyperbolic_tangent, linear<24>,
                               relu, linear<49>, sigmoid, tied<2>>;

/// Convolutions; three rows with one row's parameters, one of them in a residual, one behind a repeat; a row of a
/// repeat; statistics and random numbers between them.
///
/// 0 pool, 1 conv, 2 norm, 3 relu, 4 conv, 5 relu, 6 tied to 4, 7 pool, 8 flatten, 9 linear, 10 tanh, 11 fork, 12 tied
/// to 9, 13 relu, 14 branch, 15 sum, 16 to 19 repeat, 20 dropout, 21 tied to 9, 22 sigmoid, 23 tied to 18, 24 linear
using several = network<input<1, 28, 28>, avg_pool2d<4>, conv3<3>, shard_norm, relu, conv3<3>, relu, tied<4>,
                        max_pool2d<2>, flatten, linear<27>, hyperbolic_tangent, residual<sequential<tied<9>, relu>>,
                        repeat<2, linear<27>, sigmoid>, dropout<percent<20>>, tied<9>, sigmoid, tied<18>, linear<10>>;

/// One row's parameters in four rows, and nothing else in some stages.
using often = network<input<1, 28, 28>, avg_pool2d<4>, flatten, linear<49>, hyperbolic_tangent, tied<2>, sigmoid,
                      tied<2>, hyperbolic_tangent, tied<2>, sigmoid, linear<10>>;

} // namespace test_tying
