// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// oneDNN's kernels for the host, `kernels<onednn>`, beside everything else for it. Link with dnnl. Not for .cu files.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/kernels/onednn.hpp>
#include <trireme/trireme.hpp>
