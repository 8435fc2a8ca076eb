// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/barrier.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/schedule/collective/direct.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <vector>

namespace trireme {

/// A way for messages from one rank to another.
struct channel_link {
    int from = 0;
    int to = 0;
};

inline namespace TRIREME_ISA {

/// Channels carry messages between two ranks of a group, outside of its collectives: each link by itself, in order.
///
/// The message itself stays where the sender has it, in one of its arenas, and the receiver takes it from there: both
/// sides know the place. Waits have the group's deadline, name the rank that is late, and end when the group stops.
template<channel_communicator C>
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
        counters_ = comm.allocate(counter_bytes(links.size()));
        for (std::size_t i = 0; i < links.size(); ++i) new (of(comm.rank()) + i) counter();
        barrier<direct>(comm);
    }
    rank_channels(rank_channels const&) = delete;
    rank_channels& operator=(rank_channels const&) = delete;

    /// Memory of a rank for so many links. An arena begins on a cache line, and counters want more.
    static constexpr bytes_t counter_bytes(std::size_t links) noexcept {
        return links * sizeof(counter) + (alignof(counter) - cache_line);
    }

    /// Tells the receiver that the next message of a link is there; returns its number, counted from 1. The sender
    /// leaves it as it is until it has been taken.
    std::uint32_t send(std::size_t i) {
        require(i, links_[i].from, "sends on");
        of(comm_.rank())[i].advance_to(++sent_[i]);
        return sent_[i];
    }

    /// Waits until the messages that this rank has sent on a link have been taken, up to one of them.
    void wait_taken(std::size_t i, std::uint32_t number, operation const& what) {
        require(i, links_[i].from, "sends on");
        comm_.wait_for(of(links_[i].to)[i], number, links_[i].to, what);
    }
    /// True if they have been taken; throws if the group has stopped.
    bool taken(std::size_t i, std::uint32_t number) const {
        comm_.check_stopped();
        return of(links_[i].to)[i].reached(number);
    }

    /// Waits for the next message of a link; `take(sender)` reads it, and returns its bytes; then the sender may use
    /// its place again. Returns the number of the message.
    template<class Take>
    std::uint32_t receive(std::size_t i, operation const& what, Take&& take) {
        require(i, links_[i].to, "receives from");
        comm_.wait_for(of(links_[i].from)[i], received_[i] + 1, links_[i].from, what);
        comm_.count({1, take(links_[i].from)});
        of(comm_.rank())[i].advance_to(++received_[i]);
        return received_[i];
    }

private:
    using counter = typename C::counter;

    counter* of(int rank) const {
        auto const begin = reinterpret_cast<std::uintptr_t>(comm_.template shared<std::byte>(counters_, rank));
        return reinterpret_cast<counter*>(round_up<std::uintptr_t>(begin, alignof(counter)));
    }
    void require(std::size_t i, int rank, char const* does) const {
        if (comm_.rank() != rank) [[unlikely]]
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
