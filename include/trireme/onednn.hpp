// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// oneDNN's kernels for the host, `kernels<onednn>`, beside everything else for it. Link with dnnl. Not for .cu files.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/device/onednn/activation.hpp>
#include <trireme/device/onednn/batch_norm.hpp>
#include <trireme/device/onednn/conv2d.hpp>
#include <trireme/device/onednn/dropout.hpp>
#include <trireme/device/onednn/kernels.hpp>
#include <trireme/device/onednn/linear.hpp>
#include <trireme/device/onednn/pool2d.hpp>
#include <trireme/trireme.hpp>
