// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/levels.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/host/memory.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/group/transport/mpi/messages.hpp>
#include <trireme/group/transport/processes/group.hpp>
#include <trireme/group/transport/stop_reason.hpp>

#include <any>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// One rank of a group that MPI joins. Ranks of one machine map one another's memory: arenas are windows, and what a
/// schedule reads there is read in place, as between threads. Only what goes to another machine is a message. The
/// strategies, and their bits, are the same.
class mpi_communicator {
public:
    using near_communicator = processes::communicator;

    /// `node`: the ranks of this machine; `shares`: they share their buffers; `places`: of all ranks among them, -1 for
    /// those elsewhere.
    mpi_communicator(mpi_messages& messages, processes::group* node, bool shares, std::vector<int> places,
                     levels const& near)
        : messages_(messages), node_(node), machine_(shares ? &node->own() : nullptr),
          near_(shares && node->size() == messages.size() ? machine_ : nullptr), groups_(near),
          places_(std::move(places)) {}
    mpi_communicator(mpi_communicator const&) = delete;
    mpi_communicator& operator=(mpi_communicator const&) = delete;

    /// Bytes that the group itself takes per rank, for the plan.
    static constexpr bytes_t control_bytes = near_communicator::control_bytes;

    int rank() const noexcept { return messages_.rank(); }
    int size() const noexcept { return messages_.size(); }
    levels const& groups() const noexcept { return groups_; }

    near_communicator* near() noexcept { return near_; }
    near_communicator* machine() noexcept { return machine_; }
    int place_of(int rank) const noexcept { return machine_ == nullptr ? -1 : places_[static_cast<std::size_t>(rank)]; }
    mpi_messages& messages() noexcept { return messages_; }
    bool shares_memory() const noexcept { return near_ != nullptr; }

    /// Zeroed memory: a window where ranks share memory with others, else of the heap. All ranks call it in the same
    /// order.
    arena allocate(std::size_t bytes) {
        if (machine_ != nullptr) return machine_->allocate(bytes);
        auto const id = next_arena(allocated_);
        memory_[static_cast<std::size_t>(id)] = host_memory(bytes);
        return {id, memory_[static_cast<std::size_t>(id)].data(), bytes};
    }

    /// A peer's arena, where memory is shared (`shares_memory`).
    template<class T>
    T const* peer(arena const& a, int rank) const {
        return shared<T>(a, rank);
    }
    template<class T>
    T* shared(arena const& a, int rank) const {
        if (near_ == nullptr)
            throw usage_error("a peer's memory was asked for in a group whose ranks send messages: they are on several "
                              "machines, or windows are off");
        return near_->template shared<T>(a, rank);
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
        messages_.at_training_step(step);
    }

    void works_on(collective_subject const& s) noexcept {
        if (node_ != nullptr) node_->own().works_on(s);
        messages_.works_on(s);
    }

    void check_stopped() const {
        if (node_ != nullptr) node_->own().check_stopped();
        if (near_ == nullptr) messages_.check_stopped();
    }

    /// For collectives that an exception ends.
    TRIREME_COLD void withdraw() noexcept {
        if (near_ == nullptr) messages_.tell_exception(); // before anything is waited for
        if (machine_ != nullptr) machine_->withdraw();
        messages_.withdraw();
    }
    TRIREME_COLD void abandon(operation const& what) noexcept {
        if (near_ != nullptr && !messages_.inside()) return near_->abandon(what);
        messages_.stop(stop_reason::made(stop_reason::kind::failed, rank(), 0,
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
    mpi_messages& messages_;
    processes::group* node_;
    near_communicator* machine_; ///< the ranks of this machine, if they share memory
    near_communicator* near_;    ///< the same, if these are all ranks
    levels groups_;
    std::vector<int> places_;
    int allocated_ = 0;
    traffic moved_;
    std::array<host_memory, max_arenas> memory_;
    std::any kept_;
};

} // namespace trireme
