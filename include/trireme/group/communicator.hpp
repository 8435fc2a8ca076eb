// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace trireme {

/// Names a piece of memory that every rank of a group has allocated in the same call. `id` counts those calls.
struct arena {
    int id = -1;
    void* data = nullptr;
    std::size_t bytes = 0;
};

/// What a rank is doing, for the message of a wait that came too late.
struct operation {
    char const* name = "";     ///< "all_reduce"
    char const* strategy = ""; ///< "ring"
    int step = 0;              ///< of the schedule
};

/// One rank's handle on a group. Storage comes from here, because the transport decides what a peer can reach: the heap
/// for threads, a shared window for processes of one machine, registered memory for network cards.
template<class C>
concept communicator = requires(C& c, C const& cc, std::size_t bytes) {
    { cc.rank() } -> std::convertible_to<int>;
    { cc.size() } -> std::convertible_to<int>;
    { c.allocate(bytes) } -> std::same_as<arena>;
    { cc.pulled() } -> std::convertible_to<traffic>;
};

/// A communicator whose ranks can read each other's arenas. A collective is `enter`, then for every step of its
/// schedule `wait_for` its sources, read them through `peer`, `count` what was read and `complete` the step; then
/// `leave`.
template<class C>
concept pull_communicator = communicator<C> &&
    requires(C& c, C const& cc, arena const& a, int i, operation const& o, bytes_t b) {
    { cc.template peer<float>(a, i) } -> std::same_as<float const*>;
    c.enter();
    c.wait_for(i, i, o);
    c.complete(i);
    c.leave(i);
    c.count(b);
};

/// A pull communicator whose ranks may also write into each other's arenas, one writer per place between two waits.
template<class C>
concept shared_memory_communicator = pull_communicator<C> && requires(C const& c, arena const& a, int i) {
    { c.template shared<float>(a, i) } -> std::same_as<float*>;
};

/// A communicator that a trainer's device can work with: it tells what the group costs, takes the number of the
/// training step for its messages, and says between waits whether another rank has failed.
template<class C>
concept training_communicator = pull_communicator<C> && requires(C& c, C const& cc) {
    { C::control_bytes } -> std::convertible_to<bytes_t>; // what the group itself takes per rank, for the plan
    c.at_training_step(std::uint64_t{});                  // for the messages of late waits
    cc.check_stopped();                                   // throws group_stopped if another rank has failed
};

} // namespace trireme
