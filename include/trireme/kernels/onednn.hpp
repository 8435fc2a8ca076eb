// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// All kernels of the family onednn, and of channels_last for what it does not overload.
/// Written by tests/kernels/table.py.

#include <trireme/kernels/channels_last.hpp>
#include <trireme/kernels/onednn/context.hpp>
#include <trireme/kernels/onednn/conv2d.hpp>
#include <trireme/kernels/onednn/library.hpp>
#include <trireme/kernels/onednn/linear.hpp>
#include <trireme/kernels/onednn/policy.hpp>
