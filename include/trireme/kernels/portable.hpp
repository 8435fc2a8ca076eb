// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// All kernels of the family portable.
/// Written by tests/kernels/table.py.

#include <trireme/kernels/portable/activation.hpp>
#include <trireme/kernels/portable/activity_penalty.hpp>
#include <trireme/kernels/portable/adagrad.hpp>
#include <trireme/kernels/portable/adam.hpp>
#include <trireme/kernels/portable/add.hpp>
#include <trireme/kernels/portable/attention.hpp>
#include <trireme/kernels/portable/batch_norm.hpp>
#include <trireme/kernels/portable/conv2d.hpp>
#include <trireme/kernels/portable/conv2d_places.hpp>
#include <trireme/kernels/portable/dropout.hpp>
#include <trireme/kernels/portable/embedding.hpp>
#include <trireme/kernels/portable/gradient_norm.hpp>
#include <trireme/kernels/portable/layer_norm.hpp>
#include <trireme/kernels/portable/linear.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/portable/pool2d.hpp>
#include <trireme/kernels/portable/rms_norm.hpp>
#include <trireme/kernels/portable/rmsprop.hpp>
#include <trireme/kernels/portable/sgd.hpp>
#include <trireme/kernels/portable/soft_cross_entropy.hpp>
#include <trireme/kernels/portable/softmax_cross_entropy.hpp>
#include <trireme/kernels/portable/token_cross_entropy.hpp>
#include <trireme/kernels/portable/token_soft_cross_entropy.hpp>
#include <trireme/kernels/portable/value_loss.hpp>
#include <trireme/kernels/portable/winograd.hpp>
#include <trireme/kernels/portable/winograd_inputs.hpp>
#include <trireme/kernels/portable/winograd_plan.hpp>
#include <trireme/kernels/portable/winograd_weight_gradients.hpp>
