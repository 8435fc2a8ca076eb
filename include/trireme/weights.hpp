// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Weights in files: safetensors, with PyTorch's names and layouts.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/trainer/weights.hpp>
#include <trireme/trireme.hpp>
