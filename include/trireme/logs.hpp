// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Observers that write: progress on a terminal, logs as JSON lines, as a table and for TensorBoard.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/trainer/csv_log.hpp>
#include <trireme/trainer/json_lines_log.hpp>
#include <trireme/trainer/progress_bar.hpp>
#include <trireme/trainer/tensorboard_log.hpp>
#include <trireme/trireme.hpp>
