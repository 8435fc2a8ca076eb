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
    int from = 0; ///< rank that sends
    int to = 0;   ///< rank that receives
};

namespace detail {

TRIREME_COLD inline std::vector<channel_link> checked_links(std::span<channel_link const> links, int ranks) {
    for (auto const& l : links)
        if (l.from < 0 || l.to < 0 || l.from >= ranks || l.to >= ranks || l.from == l.to)
            throw usage_error("a link from rank " + std::to_string(l.from) + " to rank " + std::to_string(l.to) +
                              ": a group of " + std::to_string(ranks) +
                              " ranks has links between two different ones of them");
    return {links.begin(), links.end()};
}
inline void require_end(channel_link const& l, int end, int rank, char const* does) {
    if (rank != end) [[unlikely]]
        throw usage_error("rank " + std::to_string(rank) + ' ' + does + " a link from rank " + std::to_string(l.from) +
                          " to rank " + std::to_string(l.to));
}

/// Memory of a rank for so many counters of messages. An arena begins on a cache line, and counters want more.
template<class Counter>
constexpr bytes_t bytes_of_counters(std::size_t links) noexcept {
    return links * sizeof(Counter) + (alignof(Counter) - cache_line);
}
template<class Counter>
Counter* counters_in(void* arena) noexcept {
    return reinterpret_cast<Counter*>(
        round_up<std::uintptr_t>(reinterpret_cast<std::uintptr_t>(arena), alignof(Counter)));
}

} // namespace detail

inline namespace TRIREME_ISA {

/// Channels carry messages between two ranks of a group, outside of its collectives: each link by itself, in order.
///
/// The message itself stays where the sender has it, in one of its arenas, until the receiver has taken it from there,
/// or until it has been sent to another machine. Waits have the group's deadline, name the rank that is late, and end
/// when the group stops.
template<channelled_communicator C>
class rank_channels;

template<channel_communicator C>
class rank_channels<C> {
public:
    /// Every rank of the group calls it, with the same links; it takes one arena. Returns when all ranks are here.
    /// Throws usage_error for a link that is not between two ranks of the group. `under_way`: the messages of a rank
    /// that may not have been taken at once, for those that need room for it.
    rank_channels(C& comm, std::span<channel_link const> links, [[maybe_unused]] std::size_t under_way = 16)
        : comm_(comm), links_(detail::checked_links(links, comm.size())), sent_(links.size()), received_(links.size()) {
        counters_ = comm.allocate(counter_bytes(links.size()));
        for (std::size_t i = 0; i < links.size(); ++i) new (of(comm.rank()) + i) counter();
        barrier<direct>(comm);
    }
    rank_channels(rank_channels const&) = delete;
    rank_channels& operator=(rank_channels const&) = delete;

    /// Memory of a rank for so many links.
    static constexpr bytes_t counter_bytes(std::size_t links) noexcept {
        return detail::bytes_of_counters<counter>(links);
    }

    /// Tells the receiver that the next message of a link is there; returns its number, counted from 1. The sender
    /// leaves it as it is until it has been taken.
    std::uint32_t send(std::size_t i) {
        require(i, links_[i].from, "sends on");
        of(comm_.rank())[i].advance_to(++sent_[i]);
        return sent_[i];
    }
    /// Send for programs that run between machines, too: there the numbers leave from this address.
    std::uint32_t send(std::size_t i, void const*, std::size_t) { return send(i); }

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
    /// Receive for programs that run between machines, too: `take(address)` reads the numbers, and returns their
    /// bytes. They are at `find(sender)`, or, if they come from another machine, in `room`.
    template<class Find, class Take>
    std::uint32_t receive(std::size_t i, operation const& what, std::span<std::byte>, Find&& find, Take&& take) {
        return receive(i, what, [&](int sender) { return take(find(sender)); });
    }

private:
    using counter = typename C::counter;

    counter* of(int rank) const {
        return detail::counters_in<counter>(comm_.template shared<std::byte>(counters_, rank));
    }
    void require(std::size_t i, int end, char const* does) const {
        detail::require_end(links_[i], end, comm_.rank(), does);
    }

    C& comm_;
    std::vector<channel_link> links_;
    std::vector<std::uint32_t> sent_, received_; ///< by link, on this rank
    arena counters_; ///< of each link: on its sender what was sent, on its receiver what came
};

template<class C>
rank_channels(C&, std::span<channel_link const>) -> rank_channels<C>;
template<class C>
rank_channels(C&, std::span<channel_link const>, std::size_t) -> rank_channels<C>;

} // namespace TRIREME_ISA
} // namespace trireme
