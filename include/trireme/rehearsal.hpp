// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// The rehearsal device: a GPU played on the host, for tests. `mesh<rehearsal, dp<N>>`.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/device/rehearsal/device.hpp>
#include <trireme/kernels/blocks.hpp>
#include <trireme/trainer/accelerator_run.hpp>
#include <trireme/trireme.hpp>
