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

#include <type_traits>

namespace trireme {

/// `transport<mpi>`: devices are processes that MPI joins, one each. On one machine they read one another's memory;
/// between machines schedules go as messages, with the same bits. `reduce_by<native>` leaves the reduction to MPI. The
/// stages of a pipeline are processes of one machine.
struct mpi : transport_traits {
    static constexpr bool joins_hosts = true, has_native = true;
    static constexpr bool has_stages = true;             ///< on one machine, which the constructor finds out
    using default_strategy = hierarchical<direct, ring>; ///< directly on a machine, in a ring between machines
    using processes = mpi_job;
    template<bool Staged>
    using ranks = process_ranks<std::conditional_t<Staged, mpi_machine_group, mpi_group>>;
};

} // namespace trireme
