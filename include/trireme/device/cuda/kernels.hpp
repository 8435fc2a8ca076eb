// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The kernel policies of GPUs, and every kernel that they overload. What is not here is a block program.
#include <trireme/device/cuda/kernels/conv2d.hpp>
#include <trireme/device/cuda/kernels/cub.hpp>
#include <trireme/device/cuda/kernels/linear.hpp>
#include <trireme/device/cuda/kernels/policies.hpp>
#include <trireme/device/cuda/kernels/pool2d.hpp>
