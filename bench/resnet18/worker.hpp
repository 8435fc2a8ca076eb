// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// ResNet-18's training step in Trireme, as a worker of bench/harness.py: WORKER BATCH DEVICES

#include "../../examples/resnet18.hpp"
#include "../made_up.hpp"
#include "../step_worker.hpp"

namespace resnet18_bench {

using namespace trireme;

template<class... Policies>
using trainer_with = trainer<resnet18<batch_norm<per_shard>>, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>,
                             hold_weights<once>, Policies...>;

/// `name`: what its kernels are.
template<class Trainer>
int run(int argc, char** argv, char const* name) {
    return bench::steps_main<Trainer>(argc, argv, {.learning_rate = 0.1f}, bench::made_up_images(2048), name);
}

} // namespace resnet18_bench
