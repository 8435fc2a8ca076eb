// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// GPUs of NVIDIA's, `mesh<gpu, dp<N>>`, beside everything for the host. Needs nvcc; link with cublasLt and cudnn.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/device/cuda/device.hpp>
#include <trireme/device/cuda/nvtx.hpp>
#include <trireme/kernels/cuda.hpp>
#include <trireme/trainer/accelerator_run.hpp>
#include <trireme/trireme.hpp>
