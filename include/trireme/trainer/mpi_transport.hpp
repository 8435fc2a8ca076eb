// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/link_channel.hpp>
#include <trireme/collective/message_run.hpp>
#include <trireme/group/transport/mpi/group.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/hierarchical.hpp>
#include <trireme/schedule/collective/native.hpp>
#include <trireme/schedule/collective/ring.hpp>
#include <trireme/schedule/pipeline/verify.hpp>
#include <trireme/trainer/host_run.hpp>
#include <trireme/trainer/options.hpp>
#include <trireme/trainer/policy_arguments.hpp>

namespace trireme {

/// `transport<mpi>`: devices are processes that MPI joins, one each. On one machine they read one another's memory;
/// between machines schedules, and the moves of a pipeline's stages, go as messages, with the same bits.
/// `reduce_by<native>` leaves the reduction to MPI.
struct mpi : transport_traits {
    static constexpr bool joins_hosts = true, has_native = true, has_stages = true;
    static constexpr lowering moves = by_tagged_messages;
    /// Directly on a machine, in a ring between machines; on bound ranks directly on a socket, in a ring over all
    /// sockets.
    using default_strategy = hierarchical<direct, ring>;
    using processes = mpi_job;
    template<bool>
    using ranks = process_ranks<mpi_group>;
};

} // namespace trireme
