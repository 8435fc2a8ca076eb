// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/trireme.hpp>

namespace bench {

using namespace trireme;

/// The network that all benchmarks of LeNet train; bench/torch_lenet.py has it in PyTorch.
using lenet = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>, conv2d<16, kernel<5>>,
                      sigmoid, avg_pool2d<2>, flatten, linear<120>, sigmoid, linear<84>, sigmoid, linear<10>>;

} // namespace bench
