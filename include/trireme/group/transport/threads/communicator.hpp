// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/levels.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/memory.hpp>
#include <trireme/device/host/progress.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/group/transport/step_counts.hpp>
#include <trireme/group/transport/stop_reason.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace trireme::threads {

/// The data that one rank shows its peers. Written by its owner (`issued`: by rank 0), read by the others after a wait.
struct shared_slot : step_slot<progress> {
    progress issued;                                ///< jobs handed to this rank
    progress finished;                              ///< jobs it has come back from
    std::array<collective_call, max_lanes> buffers; ///< of its calls
    std::array<host_memory, max_arenas> arenas;
};

/// The part of a group that its ranks share. It outlives the group if a device is still stuck in it.
class shared_state {
public:
    shared_state(int ranks, std::chrono::duration<double> limit, levels const& near)
        : wait_limit(limit), groups(near), waiting(patience::for_threads(ranks)),
          slots_(static_cast<std::size_t>(ranks)) {}

    int size() const noexcept { return static_cast<int>(slots_.size()); }
    shared_slot& slot(int rank) noexcept { return slots_[static_cast<std::size_t>(rank)]; }
    std::atomic<bool> const& stopped() const noexcept { return stopped_; }

    /// Stops the group: every wait, present and future, ends. The first reason is kept; a null one leaves the place to
    /// the next.
    void stop(int rank, std::exception_ptr why) noexcept {
        {
            std::lock_guard const lock(mutex_);
            if (why_ == nullptr) {
                why_ = std::move(why);
                culprit_ = rank;
            }
        }
        stopped_.store(true, std::memory_order_seq_cst);
        for (auto& s : slots_) {
            for (auto& lane : s.lanes) lane.steps.wake();
            s.finished.wake();
        }
    }

    /// Ends a wait of a stopped group: with the mismatch that concerns all ranks, else without a reason, which device 0
    /// will tell.
    [[noreturn]] TRIREME_COLD void throw_stopped() const {
        std::unique_lock lock(mutex_);
        auto const why = why_;
        lock.unlock();
        try {
            if (why != nullptr) std::rethrow_exception(why);
        } catch (mismatch_error const&) {
            throw;
        } catch (...) {}
        throw group_stopped();
    }

    /// Throws what stopped the group, by throw_of_rank.
    [[noreturn]] TRIREME_COLD void rethrow() const {
        std::unique_lock lock(mutex_);
        auto const why = why_;
        auto const rank = culprit_;
        lock.unlock();
        if (why == nullptr)
            throw device_error(rank, std::make_exception_ptr(group_stopped()),
                               "an exception took it out of a collective, and was caught by the function it ran");
        throw_of_rank(rank, why);
    }

    // step_counting calls these members
    void* allocate(int rank, int arena, std::size_t bytes) {
        return (memory_of(rank, arena) = host_memory(bytes)).data();
    }
    void* at(int rank, int arena) noexcept { return memory_of(rank, arena).data(); }
    static constexpr char const* member = "device";
    static constexpr int known_as(int rank) noexcept { return rank; }
    void show_buffers(int rank, int lane, collective_call const& c) noexcept {
        slot(rank).buffers[static_cast<std::size_t>(lane)] = c;
    }
    collective_call const& buffers_of(int rank, int lane) noexcept {
        return slot(rank).buffers[static_cast<std::size_t>(lane)];
    }
    void look_around(int) noexcept {} // a thread does not die alone
    void look_around(int, auto const&) noexcept {}
    bool is_gone(int) noexcept { return false; }
    std::string state_of(int) const { return {}; }
    /// Peers use a rank's own buffers, which its caller may free: a rank that withdraws waits as long as it can.
    /// Nothing but work on those buffers keeps a peer there.
    std::chrono::duration<double> withdrawal_limit() const noexcept { return wait_limit; }

    std::chrono::duration<double> const wait_limit;
    levels const groups;
    patience const waiting;

private:
    host_memory& memory_of(int rank, int arena) noexcept { return slot(rank).arenas[static_cast<std::size_t>(arena)]; }

    std::vector<shared_slot> slots_;
    std::atomic<bool> stopped_{false};
    mutable std::mutex mutex_;
    std::exception_ptr why_;
    int culprit_ = -1;
};

/// One rank of a group of threads. Peers' memory is used in place: a byte on the wire is a byte read from a peer, or
/// written to one.
class communicator : public step_counting<shared_state> {
public:
    using step_counting::step_counting;

    /// Bytes that the group itself takes per rank, for the plan.
    static constexpr bytes_t control_bytes = sizeof(shared_slot);
};

} // namespace trireme::threads
