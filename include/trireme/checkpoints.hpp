// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Trainings in files, to go on with them: on other devices, too.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/trainer/checkpoint.hpp>
#include <trireme/trireme.hpp>
