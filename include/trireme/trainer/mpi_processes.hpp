// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/group/transport/mpi/errors.hpp>
#include <trireme/group/transport/mpi/session.hpp>
#include <trireme/trainer/options.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace trireme {

namespace detail {

// A communicator of MPI is a pointer, or an int: one kind of cast does for both.
inline std::intptr_t number_of(MPI_Comm comm) noexcept { return (std::intptr_t)comm; }
inline MPI_Comm comm_of(std::intptr_t number) noexcept { return (MPI_Comm)number; }

/// The watchdog ends a process that waits here for longer than a group may take to come together.
inline void share_by_mpi(std::intptr_t with, void* data, std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max()))
        throw usage_error("share_by_mpi is for a few bytes, not for " + std::to_string(bytes));
    auto const comm = comm_of(with);
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    mpi_runtime::watchdog::guard const guard(std::chrono::minutes(5), "MPI_Bcast");
    mpi_runtime::check(MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, 0, comm), "MPI_Bcast", rank,
                       "processes find one another");
}

} // namespace detail

/// The option `processes` of a trainer over transport<nccl> whose processes MPI has started: they find one another
/// through `comm`, and need no file. Initialises MPI if nobody has.
inline process_of process_by_mpi(MPI_Comm comm = MPI_COMM_WORLD) {
    mpi_runtime::session::begin(std::chrono::minutes(5));
    process_of p;
    MPI_Comm_rank(comm, &p.index);
    MPI_Comm_size(comm, &p.count);
    p.share = &detail::share_by_mpi;
    p.with = detail::number_of(comm);
    return p;
}

} // namespace trireme
