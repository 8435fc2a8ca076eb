// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/levels.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/host/memory.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/group/transport/mpi/links.hpp>
#include <trireme/group/transport/mpi/members.hpp>
#include <trireme/group/transport/mpi/messages.hpp>
#include <trireme/group/transport/processes/group.hpp>
#include <trireme/group/transport/stop_reason.hpp>

#include <algorithm>
#include <any>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

/// The messages of collectives among the members of a communicator, whose ranks are their places.
class mpi_member_messages {
public:
    mpi_member_messages(mpi_messages& group, mpi_members members) : group_(group), members_(std::move(members)) {}

    mpi_members const& members() const noexcept { return members_; }
    mpi_messages& group() const noexcept { return group_; }
    void works_on(collective_subject const& s) noexcept { members_.subject = s; }

    void enter(collective_call const& call) { group_.enter(call, members_); }
    void leave() noexcept { group_.leave(); }
    void withdraw() noexcept { group_.withdraw(); }
    void send(int to, void const* data, std::size_t bytes) { group_.send(members_.known(to), data, bytes); }
    void receive(int from, void* data, std::size_t bytes) { group_.receive(members_.known(from), data, bytes); }
    void awaits(int neighbour) noexcept { group_.awaits(neighbour < 0 ? neighbour : members_.known(neighbour)); }
    bool settled(operation const& what) { return group_.settled(what); }
    template<class Ready>
    void wait(operation const& what, Ready&& ready) {
        group_.wait(what, ready);
    }
    /// Throws usage_error in a part of the group.
    template<class T>
    void all_reduce(T* data, std::size_t elements, std::string_view name) {
        if (members_.lane != 0)
            throw usage_error("all_reduce by native in a part of a group: MPI knows the whole group alone; choose "
                              "another strategy");
        group_.all_reduce(data, elements, name);
    }

    /// The most bytes that one message carries; tests make it small.
    std::size_t& most_bytes() noexcept { return group_.most_bytes; }

private:
    mpi_messages& group_;
    mpi_members members_;
};

/// One rank of a group that MPI joins. Ranks of one machine map one another's memory: arenas are windows, and what a
/// schedule reads there is read in place, as between threads. Only what goes to another machine is a message. The
/// strategies, and their bits, are the same.
///
/// An object is a handle on the whole group, or on a part of it, whose ranks are numbered by their place in the list of
/// its members. Arenas, and the reason to stop, are those of the whole group.
class mpi_communicator {
public:
    using near_communicator = processes::communicator;
    using link_messages = mpi_links;

    /// `node`: the ranks of this machine; `shares`: they share their buffers; `places`: of all ranks among them, -1 for
    /// those elsewhere.
    mpi_communicator(mpi_messages& messages, processes::group* node, bool shares, std::vector<int> places,
                     levels const& near)
        : messages_(messages, {}), size_(messages.size()), rank_(messages.rank()), node_(node),
          machine_(shares ? &node->own() : nullptr),
          near_(shares && node->size() == messages.size() ? machine_ : nullptr), groups_(near),
          places_(std::move(places)) {}
    /// Makes a rank's handle on a part of the group of `whole`, as step_counting's: every member makes it with the same
    /// lane and the same members. Where the whole group sends messages, its parts do, too, even if all of a part's
    /// ranks are on one machine: a rank that waits hears then of what happens on the others.
    mpi_communicator(mpi_communicator const& whole, int lane, std::vector<int> members)
        : messages_(whole.messages_.group(), {lane, members}), size_(static_cast<int>(members.size())),
          rank_(static_cast<int>(std::find(members.begin(), members.end(), whole.rank()) - members.begin())),
          node_(whole.node_), places_(members.size(), -1) {
        if (whole.part_ != nullptr || whole.messages_.members().lane != 0 || lane < 1 || lane >= max_lanes ||
            rank_ == size_ || (whole.lanes_taken_ & 1u << lane) != 0)
            throw usage_error("a part of a group is made of the whole group's ranks, this one among them, with a lane "
                              "from 1 to " +
                              std::to_string(max_lanes - 1) + " that no other part has taken");
        whole.lanes_taken_ |= 1u << lane;
        if (whole.machine_ == nullptr) return;
        std::vector<int> here;
        for (std::size_t i = 0; i < members.size(); ++i)
            if (auto const place = whole.place_of(members[i]); place >= 0) {
                places_[i] = static_cast<int>(here.size());
                here.push_back(place);
            }
        if (here.size() == 1 && whole.near_ == nullptr) { // nobody reads its memory
            places_.assign(members.size(), -1);
            return;
        }
        part_ = std::make_unique<near_communicator>(*whole.machine_, lane, std::move(here));
        machine_ = part_.get();
        if (whole.near_ != nullptr) near_ = machine_;
    }
    mpi_communicator(mpi_communicator const&) = delete;
    mpi_communicator& operator=(mpi_communicator const&) = delete;

    /// Bytes that the group itself takes per rank, for the plan.
    static constexpr bytes_t control_bytes = near_communicator::control_bytes;

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }
    levels const& groups() const noexcept { return groups_; }

    near_communicator* near() noexcept { return near_; }
    near_communicator* machine() noexcept { return machine_; }
    int place_of(int rank) const noexcept { return machine_ == nullptr ? -1 : places_[static_cast<std::size_t>(rank)]; }
    mpi_member_messages& messages() noexcept { return messages_; }
    /// Messages outside of collectives, between ranks of the whole group; all of its ranks call it together.
    link_messages links(std::size_t between_two, std::size_t under_way) {
        return link_messages(messages_.group(), between_two, under_way);
    }
    bool shares_memory() const noexcept { return near_ != nullptr; }

    /// Zeroed memory: a window where ranks share memory with others, else of the heap. All ranks of the whole group
    /// call it in the same order.
    arena allocate(std::size_t bytes) {
        if (messages_.members().lane != 0)
            throw usage_error("a part of a group was asked for an arena: the whole group has them");
        if (machine_ != nullptr) return machine_->allocate(bytes);
        auto const id = next_arena(allocated_);
        memory_[static_cast<std::size_t>(id)] = host_memory(bytes);
        return {id, memory_[static_cast<std::size_t>(id)].data(), bytes};
    }

    /// A peer's arena, where memory is shared: of any rank if `shares_memory`, else of one of this machine.
    template<class T>
    T const* peer(arena const& a, int rank) const {
        return shared<T>(a, rank);
    }
    template<class T>
    T* shared(arena const& a, int rank) const {
        if (rank == rank_) return static_cast<T*>(a.data);
        if (machine_ == nullptr || place_of(rank) < 0)
            throw usage_error("a peer's memory was asked for in a group whose ranks send messages: they are on several "
                              "machines, or windows are off");
        return machine_->template shared<T>(a, place_of(rank));
    }

    void count(traffic moved) noexcept { moved_ += moved; }

    /// The traffic that this rank has read from peers or pushed to them, be it through memory or in messages.
    traffic pulled() const noexcept {
        auto sum = moved_;
        if (near_ != nullptr) sum += near_->pulled();
        return sum;
    }

    void at_training_step(std::uint64_t step) noexcept {
        if (node_ != nullptr) node_->own().at_training_step(step);
        messages_.group().at_training_step(step);
    }

    void works_on(collective_subject const& s) noexcept {
        if (machine_ != nullptr) machine_->works_on(s);
        messages_.works_on(s);
    }

    void check_stopped() const {
        if (node_ != nullptr) node_->own().check_stopped();
        if (near_ == nullptr) messages_.group().check_stopped();
    }

    /// For collectives that an exception ends.
    TRIREME_COLD void withdraw() noexcept {
        if (near_ == nullptr) messages_.group().tell_exception(); // before anything is waited for
        if (machine_ != nullptr) machine_->withdraw();
        messages_.withdraw();
    }
    TRIREME_COLD void abandon(operation const& what) noexcept {
        auto& group = messages_.group();
        if (near_ != nullptr && !group.inside()) return near_->abandon(what);
        group.stop(stop_reason::made(stop_reason::kind::failed, group.rank(), 0,
                                     std::string(what.name) + " (" + what.strategy +
                                         ") was begun and dropped: keep what start returns, and wait for it"));
        if (machine_ != nullptr) machine_->withdraw();
        messages_.withdraw();
    }

    /// A place for what runs collectives to keep its own things; one type.
    template<class X>
    X& kept() {
        if (!kept_.has_value()) kept_ = std::make_shared<X>(); // X need not be copied, what `any` holds must be
        return *std::any_cast<std::shared_ptr<X> const&>(kept_);
    }

private:
    mpi_member_messages messages_;
    int size_, rank_; ///< of the whole group, or the part
    processes::group* node_;
    std::unique_ptr<near_communicator> part_; ///< of a part's ranks on this machine
    near_communicator* machine_ = nullptr;    ///< the ranks of this machine, if they share memory
    near_communicator* near_ = nullptr;       ///< the same, if these are all ranks
    levels groups_;
    std::vector<int> places_;
    int allocated_ = 0;
    mutable unsigned lanes_taken_ = 0; ///< by parts of this group, a bit each
    traffic moved_;
    std::array<host_memory, max_arenas> memory_;
    std::any kept_;
};

} // namespace trireme
