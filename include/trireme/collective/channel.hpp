// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/barrier.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/schedule/collective/direct.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <vector>

namespace trireme {

/// A way for messages of one size from one rank to another.
struct channel_link {
    int from = 0;
    int to = 0;
    std::size_t bytes = 0;
};

inline namespace TRIREME_ISA {

/// Channels carry messages between two ranks of a group, outside of its collectives: each link by itself, in order.
///
/// The message itself stays where the sender has it, in one of its arenas, and the receiver takes it from there: both
/// sides know the place. Waits have the group's deadline, name the rank that is late, and end when the group stops.
template<pull_communicator C>
class rank_channels {
public:
    /// Every rank of the group calls it, with the same links; it takes one arena. Returns when all ranks are here.
    /// Throws usage_error for a link that is not between two ranks of the group.
    rank_channels(C& comm, std::span<channel_link const> links)
        : comm_(comm), links_(links.begin(), links.end()), sent_(links.size()), received_(links.size()) {
        for (auto const& l : links)
            if (l.from < 0 || l.to < 0 || l.from >= comm.size() || l.to >= comm.size() || l.from == l.to)
                throw usage_error("a link from rank " + std::to_string(l.from) + " to rank " + std::to_string(l.to) +
                                  ": a group of " + std::to_string(comm.size()) +
                                  " ranks has links between two different ones of them");
        counters_ = comm.allocate(links.size() * sizeof(counter));
        for (std::size_t i = 0; i < links.size(); ++i) new (of(comm.rank()) + i) counter();
        barrier<direct>(comm);
    }
    rank_channels(rank_channels const&) = delete;
    rank_channels& operator=(rank_channels const&) = delete;

    /// Tells the receiver that the next message of a link is there. The sender leaves it as it is until it has been
    /// taken.
    void send(std::size_t i) {
        require(i, links_[i].from, "sends on");
        of(comm_.rank())[i].advance_to(++sent_[i]);
    }

    /// Waits until all messages that this rank has sent on a link have been taken, but for the last `but` ones.
    void wait_taken(std::size_t i, operation const& what, std::uint32_t but = 0) {
        require(i, links_[i].from, "sends on");
        comm_.wait_for(of(links_[i].to)[i], sent_[i] - but, links_[i].to, what);
    }
    /// True if they have been taken; throws if the group has stopped.
    bool taken(std::size_t i, std::uint32_t but = 0) const {
        comm_.check_stopped();
        return of(links_[i].to)[i].reached(sent_[i] - but);
    }

    /// Waits for the next message of a link; `take(sender)` reads it, and then the sender may use its place again.
    /// Returns how many messages of this link have come.
    template<class Take>
    std::uint32_t receive(std::size_t i, operation const& what, Take&& take) {
        require(i, links_[i].to, "receives from");
        comm_.wait_for(of(links_[i].from)[i], received_[i] + 1, links_[i].from, what);
        take(links_[i].from);
        comm_.count({1, links_[i].bytes});
        of(comm_.rank())[i].advance_to(++received_[i]);
        return received_[i];
    }

private:
    using counter = typename C::counter;

    counter* of(int rank) const { return comm_.template shared<counter>(counters_, rank); }
    void require(std::size_t i, int rank, char const* does) const {
        if (comm_.rank() != rank)
            throw usage_error("rank " + std::to_string(comm_.rank()) + ' ' + does + " a link from rank " +
                              std::to_string(links_[i].from) + " to rank " + std::to_string(links_[i].to));
    }

    C& comm_;
    std::vector<channel_link> links_;
    std::vector<std::uint32_t> sent_, received_; ///< by link, on this rank
    arena counters_; ///< of each link: on its sender what was sent, on its receiver what came
};

} // namespace TRIREME_ISA
} // namespace trireme
