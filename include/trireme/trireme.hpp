// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Everything for the host. CUDA, MPI and oneDNN are separate includes.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/collective/all_gather.hpp>
#include <trireme/collective/all_gatherv.hpp>
#include <trireme/collective/all_reduce.hpp>
#include <trireme/collective/all_to_all.hpp>
#include <trireme/collective/barrier.hpp>
#include <trireme/collective/blocks_by_rank.hpp>
#include <trireme/collective/broadcast.hpp>
#include <trireme/collective/channel.hpp>
#include <trireme/collective/gather.hpp>
#include <trireme/collective/gatherv.hpp>
#include <trireme/collective/rank_messages.hpp>
#include <trireme/collective/reduce.hpp>
#include <trireme/collective/reduce_scatter.hpp>
#include <trireme/collective/scatter.hpp>
#include <trireme/collective/scatterv.hpp>
#include <trireme/core/bf16.hpp>
#include <trireme/core/deadline.hpp>
#include <trireme/core/dtype.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/extents.hpp>
#include <trireme/core/philox.hpp>
#include <trireme/core/units.hpp>
#include <trireme/core/version.hpp>
#include <trireme/data/augmented.hpp>
#include <trireme/data/fashion_mnist.hpp>
#include <trireme/data/gather.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/data/sampler.hpp>
#include <trireme/data/samples_in_memory.hpp>
#include <trireme/data/shuffled_batches.hpp>
#include <trireme/device/host/device.hpp>
#include <trireme/device/host/peak.hpp>
#include <trireme/group/mesh.hpp>
#include <trireme/group/transport/threads/group.hpp>
#include <trireme/kernels/portable.hpp>
#include <trireme/layer/activation.hpp>
#include <trireme/layer/activity_penalty.hpp>
#include <trireme/layer/attention.hpp>
#include <trireme/layer/batch_norm.hpp>
#include <trireme/layer/combinators.hpp>
#include <trireme/layer/conv2d.hpp>
#include <trireme/layer/cross_entropy.hpp>
#include <trireme/layer/cross_entropy_with.hpp>
#include <trireme/layer/dropout.hpp>
#include <trireme/layer/embedding.hpp>
#include <trireme/layer/flatten.hpp>
#include <trireme/layer/global_avg_pool2d.hpp>
#include <trireme/layer/gpt.hpp>
#include <trireme/layer/gradient_check.hpp>
#include <trireme/layer/initialise.hpp>
#include <trireme/layer/layer_norm.hpp>
#include <trireme/layer/linear.hpp>
#include <trireme/layer/loss.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/layer/pool2d.hpp>
#include <trireme/layer/rms_norm.hpp>
#include <trireme/layer/summary.hpp>
#include <trireme/layer/tied.hpp>
#include <trireme/layer/value_loss.hpp>
#include <trireme/optimizer/adagrad.hpp>
#include <trireme/optimizer/adam.hpp>
#include <trireme/optimizer/rate_schedule.hpp>
#include <trireme/optimizer/rmsprop.hpp>
#include <trireme/optimizer/sgd.hpp>
#include <trireme/parallel/gradient_norm.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/parallel/price.hpp>
#include <trireme/parallel/tensor_rules.hpp>
#include <trireme/schedule/collective/best_of.hpp>
#include <trireme/schedule/collective/bidirectional_ring.hpp>
#include <trireme/schedule/collective/binomial_tree.hpp>
#include <trireme/schedule/collective/chain.hpp>
#include <trireme/schedule/collective/compressed.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/dissemination.hpp>
#include <trireme/schedule/collective/double_binary_tree.hpp>
#include <trireme/schedule/collective/hierarchical.hpp>
#include <trireme/schedule/collective/recursive_halving_doubling.hpp>
#include <trireme/schedule/collective/ring.hpp>
#include <trireme/schedule/collective/strategy_by_default.hpp>
#include <trireme/schedule/cost.hpp>
#include <trireme/schedule/machine.hpp>
#include <trireme/schedule/pipeline/print.hpp>
#include <trireme/schedule/pipeline/span.hpp>
#include <trireme/schedule/verify.hpp>
#include <trireme/trainer/accuracy.hpp>
#include <trireme/trainer/model.hpp>
#include <trireme/trainer/trainer.hpp>

#include <iostream> // programs print what the trainer reports
