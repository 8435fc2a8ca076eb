// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Groups whose ranks are processes of one machine, which read one another's memory: Linux.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/group/transport/processes/group.hpp>
#include <trireme/trainer/shared_windows.hpp>
#include <trireme/trireme.hpp>
