// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Readers of files, and what prepares samples: csv, split, standardisation.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/data/csv.hpp>
#include <trireme/data/samples.hpp>
#include <trireme/data/split.hpp>
#include <trireme/data/standardisation.hpp>
