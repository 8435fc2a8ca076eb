// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// The naive kernels, `kernels<reference>`, beside everything for the host: for tests, and for reading.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/kernels/reference.hpp>
#include <trireme/trireme.hpp>
