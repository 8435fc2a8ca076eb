// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// All kernels of the family reference.
/// Written by tests/kernels/table.py.

#include <trireme/kernels/reference/activation.hpp>
#include <trireme/kernels/reference/activity_penalty.hpp>
#include <trireme/kernels/reference/adagrad.hpp>
#include <trireme/kernels/reference/adam.hpp>
#include <trireme/kernels/reference/add.hpp>
#include <trireme/kernels/reference/attention.hpp>
#include <trireme/kernels/reference/batch_norm.hpp>
#include <trireme/kernels/reference/conv2d.hpp>
#include <trireme/kernels/reference/dropout.hpp>
#include <trireme/kernels/reference/embedding.hpp>
#include <trireme/kernels/reference/gradient_norm.hpp>
#include <trireme/kernels/reference/layer_norm.hpp>
#include <trireme/kernels/reference/linear.hpp>
#include <trireme/kernels/reference/policy.hpp>
#include <trireme/kernels/reference/pool2d.hpp>
#include <trireme/kernels/reference/rms_norm.hpp>
#include <trireme/kernels/reference/rmsprop.hpp>
#include <trireme/kernels/reference/sgd.hpp>
#include <trireme/kernels/reference/soft_cross_entropy.hpp>
#include <trireme/kernels/reference/softmax_cross_entropy.hpp>
#include <trireme/kernels/reference/token_cross_entropy.hpp>
#include <trireme/kernels/reference/token_soft_cross_entropy.hpp>
#include <trireme/kernels/reference/value_loss.hpp>
