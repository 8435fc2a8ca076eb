// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// GPUs of several processes or machines, and gradients added by NCCL: `transport<nccl>`. Link with nccl as well.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/cuda.hpp>
#include <trireme/trainer/nccl_transport.hpp>
