// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/in_flight.hpp>

#include <cstddef>
#include <span>

namespace trireme::inline TRIREME_ISA {

/// Barrier: returns when all ranks of the group have called it.
///
/// Strategies: direct, dissemination, hierarchical. Throws mismatch_error, deadline_error, group_stopped.
template<class Strategy = strategy_by_default<collective::barrier>, collective_communicator C>
in_flight<std::byte, detail::no_op, C> start_barrier(C& comm) {
    auto const s = detail::schedule_for<Strategy, collective::barrier, std::byte>(comm, 0);
    auto call = detail::call_of<std::byte, detail::no_op>(collective::barrier, s, 0, {}, {});
    call.dtype = "";
    return {comm, s, {0, 1, s.chunks}, call, {}};
}

/// Returns when all ranks of the group have called it. See start_barrier.
template<class Strategy = strategy_by_default<collective::barrier>, collective_communicator C>
void barrier(C& comm) {
    start_barrier<Strategy>(comm).wait();
}

} // namespace trireme::inline TRIREME_ISA
