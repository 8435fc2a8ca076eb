// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// The naive kernels, `kernels<reference>`, beside everything for the host: for tests, and for reading.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/device/host/kernels/reference/activation.hpp>
#include <trireme/device/host/kernels/reference/adagrad.hpp>
#include <trireme/device/host/kernels/reference/adam.hpp>
#include <trireme/device/host/kernels/reference/add.hpp>
#include <trireme/device/host/kernels/reference/batch_norm.hpp>
#include <trireme/device/host/kernels/reference/conv2d.hpp>
#include <trireme/device/host/kernels/reference/dropout.hpp>
#include <trireme/device/host/kernels/reference/gradient_norm.hpp>
#include <trireme/device/host/kernels/reference/linear.hpp>
#include <trireme/device/host/kernels/reference/pool2d.hpp>
#include <trireme/device/host/kernels/reference/rmsprop.hpp>
#include <trireme/device/host/kernels/reference/sgd.hpp>
#include <trireme/device/host/kernels/reference/soft_cross_entropy.hpp>
#include <trireme/device/host/kernels/reference/softmax_cross_entropy.hpp>
#include <trireme/device/host/kernels/reference/value_loss.hpp>
#include <trireme/trireme.hpp>
