// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// GPUs of NVIDIA's, `mesh<gpu, dp<N>>`, beside everything for the host. Needs nvcc; link with cublasLt and cudnn.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/device/blocks/activation.hpp>
#include <trireme/device/blocks/adagrad.hpp>
#include <trireme/device/blocks/adam.hpp>
#include <trireme/device/blocks/add.hpp>
#include <trireme/device/blocks/batch_norm.hpp>
#include <trireme/device/blocks/conv2d.hpp>
#include <trireme/device/blocks/dropout.hpp>
#include <trireme/device/blocks/linear.hpp>
#include <trireme/device/blocks/pool2d.hpp>
#include <trireme/device/blocks/rmsprop.hpp>
#include <trireme/device/blocks/samples.hpp>
#include <trireme/device/blocks/sgd.hpp>
#include <trireme/device/blocks/soft_cross_entropy.hpp>
#include <trireme/device/blocks/softmax_cross_entropy.hpp>
#include <trireme/device/blocks/value_loss.hpp>
#include <trireme/device/cuda/device.hpp>
#include <trireme/device/cuda/kernels.hpp>
#include <trireme/device/cuda/nvtx.hpp>
#include <trireme/trainer/accelerator_run.hpp>
#include <trireme/trireme.hpp>
