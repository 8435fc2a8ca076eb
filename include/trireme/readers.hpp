// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Readers of files: tables as csv, arrays as npy, CIFAR-10. Samples are split and standardised.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/data/cifar.hpp>
#include <trireme/data/csv.hpp>
#include <trireme/data/npy.hpp>
#include <trireme/data/samples.hpp>
#include <trireme/data/split.hpp>
#include <trireme/data/standardisation.hpp>
#include <trireme/data/token_files.hpp>
#include <trireme/data/tokens.hpp>
