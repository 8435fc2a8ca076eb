// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/message_run.hpp>
#include <trireme/group/transport/mpi/group.hpp>
#include <trireme/group/transport/mpi/machine_group.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/hierarchical.hpp>
#include <trireme/schedule/collective/native.hpp>
#include <trireme/schedule/collective/ring.hpp>
#include <trireme/trainer/host_run.hpp>
#include <trireme/trainer/options.hpp>
#include <trireme/trainer/policy_arguments.hpp>

namespace trireme {

/// `transport<mpi>`: devices are processes that MPI joins, one each. On one machine they read one another's memory;
/// between machines schedules go as messages, with the same bits. `reduce_by<native>` leaves the reduction to MPI. The
/// stages of a pipeline are processes of one machine.
struct mpi {};
template<>
inline constexpr bool is_transport<mpi> = true;
template<>
inline constexpr bool joins_hosts<mpi> = true;
template<>
inline constexpr bool has_native<mpi> = true;
/// Directly on a machine, in a ring between machines.
template<>
struct default_strategy<mpi> {
    using type = hierarchical<direct, ring>;
};
template<>
struct processes_option<mpi> {
    using type = chosen_option<mpi_job>;
};
/// On one machine, which the constructor finds out.
template<>
inline constexpr bool stages_run_over<mpi> = true;
template<>
struct host_ranks<mpi, false> {
    using type = process_ranks<mpi_group>;
};
template<>
struct host_ranks<mpi, true> {
    using type = process_ranks<mpi_machine_group>;
};

} // namespace trireme
