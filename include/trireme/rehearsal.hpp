// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// The rehearsal device: a GPU played on the host, for tests. `mesh<rehearsal, dp<N>>`.

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
#include <trireme/device/rehearsal/device.hpp>
#include <trireme/trainer/accelerator_run.hpp>
#include <trireme/trireme.hpp>
