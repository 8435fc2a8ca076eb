// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// All kernels of the family blocks.
/// Written by tests/kernels/table.py.

#include <trireme/kernels/blocks/activation.hpp>
#include <trireme/kernels/blocks/activity_penalty.hpp>
#include <trireme/kernels/blocks/adagrad.hpp>
#include <trireme/kernels/blocks/adam.hpp>
#include <trireme/kernels/blocks/add.hpp>
#include <trireme/kernels/blocks/attention.hpp>
#include <trireme/kernels/blocks/attention_weights.hpp>
#include <trireme/kernels/blocks/batch_norm.hpp>
#include <trireme/kernels/blocks/bias.hpp>
#include <trireme/kernels/blocks/candidate.hpp>
#include <trireme/kernels/blocks/channels.hpp>
#include <trireme/kernels/blocks/clock.hpp>
#include <trireme/kernels/blocks/conv2d.hpp>
#include <trireme/kernels/blocks/conv2d_tiles.hpp>
#include <trireme/kernels/blocks/conv2d_weight_gradients.hpp>
#include <trireme/kernels/blocks/dropout.hpp>
#include <trireme/kernels/blocks/elementwise.hpp>
#include <trireme/kernels/blocks/embedding.hpp>
#include <trireme/kernels/blocks/gradient_norm.hpp>
#include <trireme/kernels/blocks/layer_norm.hpp>
#include <trireme/kernels/blocks/linear.hpp>
#include <trireme/kernels/blocks/many_classes.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/pool2d.hpp>
#include <trireme/kernels/blocks/rms_norm.hpp>
#include <trireme/kernels/blocks/rmsprop.hpp>
#include <trireme/kernels/blocks/samples.hpp>
#include <trireme/kernels/blocks/sgd.hpp>
#include <trireme/kernels/blocks/soft_cross_entropy.hpp>
#include <trireme/kernels/blocks/softmax_cross_entropy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/blocks/tensor_attention.hpp>
#include <trireme/kernels/blocks/token_cross_entropy.hpp>
#include <trireme/kernels/blocks/token_soft_cross_entropy.hpp>
#include <trireme/kernels/blocks/value_loss.hpp>
