// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// All kernels of the family cuda, and of blocks for what it does not overload.
/// Written by tests/kernels/table.py.

#include <trireme/kernels/blocks.hpp>
#include <trireme/kernels/cuda/conv2d.hpp>
#include <trireme/kernels/cuda/cublaslt.hpp>
#include <trireme/kernels/cuda/cudnn.hpp>
#include <trireme/kernels/cuda/linear.hpp>
#include <trireme/kernels/cuda/policy.hpp>
#include <trireme/kernels/cuda/pool2d.hpp>
#include <trireme/kernels/cuda/softmax_cross_entropy.hpp>
