// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// LeNet for GPUs: the same program, with `gpu` where it says `host`.

#include "lenet.hpp"

#include <trireme/cuda.hpp>

int run_lenet_on_gpu(lenet_flags const& flags) { return run_lenet<lenet_trainer<mesh<gpu, dp<dynamic>>>>(flags); }
