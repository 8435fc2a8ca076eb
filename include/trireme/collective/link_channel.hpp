// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/barrier.hpp>
#include <trireme/collective/channel.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/schedule/collective/direct.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace trireme::inline TRIREME_ISA {

/// Channels of a group that may be on several machines: a link between two ranks that share memory is a pair of
/// counters there, and the receiver reads in place; any other is messages, in an order of its own.
template<link_communicator C>
class rank_channels<C> {
    using counter = typename C::near_communicator::counter;
    using link_messages = typename C::link_messages;

public:
    /// Every rank of the group calls it, with the same links; it takes one arena. Returns when all ranks are here.
    /// Throws usage_error for a link that is not between two ranks of the group. `under_way`: the messages of a rank
    /// that may not have been taken at once, for which there is room without allocating.
    rank_channels(C& comm, std::span<channel_link const> links, std::size_t under_way = 16)
        : comm_(comm), links_(detail::checked_links(links, comm.size())), tags_(links.size()), sent_(links.size()),
          received_(links.size()), waits_in_room_(links.size()) {
        counters_ = comm.allocate(counter_bytes(links.size()));
        for (std::size_t i = 0; i < links.size(); ++i) new (of(comm.rank()) + i) counter();
        std::map<std::pair<int, int>, std::size_t> between;
        std::size_t most = 0; // the same on all ranks
        for (std::size_t i = 0; i < links_.size(); ++i) {
            tags_[i] = between[{links_[i].from, links_[i].to}]++;
            most = std::max(most, tags_[i] + 1);
        }
        barrier<direct>(comm);
        if (comm.near() == nullptr) messages_.reset(new link_messages(comm.links(most, under_way)));
    }
    rank_channels(rank_channels const&) = delete;
    rank_channels& operator=(rank_channels const&) = delete;

    /// Memory of a rank for so many links.
    static constexpr bytes_t counter_bytes(std::size_t links) noexcept {
        return detail::bytes_of_counters<counter>(links);
    }

    /// Sends the next message of a link; returns its number, counted from 1. The sender leaves it as it is until it has
    /// been taken.
    std::uint32_t send(std::size_t i, void const* data, std::size_t bytes) {
        require(i, links_[i].from, "sends on");
        auto const number = ++sent_[i];
        if (is_near(links_[i].to))
            of(comm_.rank())[i].advance_to(number);
        else
            messages_->send(i, number, links_[i].to, tags_[i], data, bytes);
        return number;
    }

    /// Waits until the messages that this rank has sent on a link have been taken, up to one of them, or have left its
    /// memory.
    void wait_taken(std::size_t i, std::uint32_t number, operation const& what) {
        require(i, links_[i].from, "sends on");
        int const to = links_[i].to;
        if (is_near(to))
            wait_for(of(to)[i], number, to, what);
        else
            messages_->wait(to, what, [&] { return messages_->has_sent(i, number, what); });
    }
    /// True if they have been taken; throws if the group has stopped.
    bool taken(std::size_t i, std::uint32_t number) {
        comm_.check_stopped();
        if (is_near(links_[i].to)) return of(links_[i].to)[i].reached(number);
        return messages_->has_sent(i, number, {"channel", "links", 0});
    }

    /// Waits for the next message of a link; `take(address)` reads the numbers, and returns their bytes; then the
    /// sender may use its place again. They are at `find(sender)` in memory, or, if they are sent, in `room`. Returns
    /// the number of the message. After an exception of `take` it can be received again, into the same room.
    template<class Find, class Take>
    std::uint32_t receive(std::size_t i, operation const& what, std::span<std::byte> room, Find&& find, Take&& take) {
        require(i, links_[i].to, "receives from");
        int const from = links_[i].from;
        if (is_near(from)) {
            wait_for(of(from)[i], received_[i] + 1, from, what);
            comm_.count({1, take(find(from))});
            of(comm_.rank())[i].advance_to(received_[i] + 1);
        } else {
            if (!waits_in_room_[i]) messages_->receive(from, tags_[i], room.data(), room.size(), what);
            waits_in_room_[i] = true;
            comm_.count({1, take(static_cast<std::byte const*>(room.data()))});
            waits_in_room_[i] = false;
        }
        return ++received_[i];
    }

private:
    bool is_near(int rank) { return comm_.place_of(rank) >= 0; }
    counter* of(int rank) const {
        return detail::counters_in<counter>(comm_.template shared<std::byte>(counters_, rank));
    }
    void require(std::size_t i, int end, char const* does) const {
        detail::require_end(links_[i], end, comm_.rank(), does);
    }
    /// A wait for a neighbour's counter, which, if some ranks are on other machines, what happens there may end.
    void wait_for(counter& theirs, std::uint32_t number, int rank, operation const& what) {
        if (auto* const all = comm_.near(); all != nullptr)
            all->wait_for(theirs, number, rank, what);
        else
            messages_->wait(rank, what, [&] { return theirs.reached(number); });
    }

    C& comm_;
    std::vector<channel_link> links_;
    std::vector<std::size_t> tags_;              ///< of each link, among those of its two ranks
    std::vector<std::uint32_t> sent_, received_; ///< by link, on this rank
    std::vector<bool> waits_in_room_;            ///< a message that has not been read
    arena counters_; ///< of each link in memory: on its sender what was sent, on its receiver what came
    std::unique_ptr<link_messages> messages_; ///< none if all ranks share memory
};

} // namespace trireme::inline TRIREME_ISA
