// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// All kernels of the family channels_last.
/// Written by tests/kernels/table.py.

#include <trireme/kernels/channels_last/activation.hpp>
#include <trireme/kernels/channels_last/add.hpp>
#include <trireme/kernels/channels_last/batch_norm.hpp>
#include <trireme/kernels/channels_last/dropout.hpp>
#include <trireme/kernels/channels_last/policy.hpp>
#include <trireme/kernels/channels_last/pool2d.hpp>
