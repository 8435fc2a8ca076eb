// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Groups whose ranks are processes that MPI joins, on one machine or several. Needs an MPI library: Open MPI or MPICH.

#include <trireme/core/macros.hpp> // first: it refuses older standards

#include <trireme/processes.hpp>
#include <trireme/trainer/mpi_processes.hpp>
#include <trireme/trainer/mpi_transport.hpp>
