// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/memory.hpp>
#include <trireme/device/host/progress.hpp>
#include <trireme/group/communicator.hpp>

#include <array>
#include <atomic>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace trireme::threads {

/// How many arenas a rank may allocate; the trainer needs four.
inline constexpr int max_arenas = 8;

/// What one rank shows its peers. Written by its owner (`issued`: by rank 0), read by the others after a wait.
struct shared_slot {
    progress steps;                         ///< steps completed, over all collectives
    progress issued;                        ///< jobs handed to this rank
    progress finished;                      ///< jobs it has come back from
    std::atomic<int> waits_for{-1};         ///< the rank it sleeps for, -1 if it computes
    std::array<void*, max_arenas> arenas{}; ///< where its arenas begin
};

/// The part of a group that its ranks share. It outlives the group if a device is still stuck in it.
class shared_state {
public:
    shared_state(int ranks, std::chrono::duration<double> limit)
        : wait_limit(limit), waiting(patience::for_threads(ranks)), slots_(static_cast<std::size_t>(ranks)) {}

    int size() const noexcept { return static_cast<int>(slots_.size()); }
    shared_slot& slot(int rank) noexcept { return slots_[static_cast<std::size_t>(rank)]; }
    std::atomic<bool> const& stopped() const noexcept { return stopped_; }

    /// Stops the group: every wait, present and future, ends. The first reason is kept.
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
            s.steps.wake();
            s.finished.wake();
        }
    }

    /// Throws what stopped the group: a deadline_error as it is, anything else as a device_error that names the device.
    [[noreturn]] void rethrow() const {
        std::unique_lock lock(mutex_);
        auto const why = why_;
        auto const rank = culprit_;
        lock.unlock();
        try {
            std::rethrow_exception(why);
        } catch (deadline_error const&) {
            throw;
        } catch (std::exception const& e) {
            throw device_error(rank, why, e.what());
        } catch (...) {
            throw device_error(rank, why, "an exception that is not derived from std::exception");
        }
    }

    /// Who is to blame when `rank` has waited too long for `source`: follow the waits to a rank that waits for nobody.
    int culprit(int source) noexcept {
        for (int hops = 0; hops < size(); ++hops) {
            int const next = slot(source).waits_for.load(std::memory_order_acquire);
            if (next < 0) break;
            source = next;
        }
        return source;
    }

    std::chrono::duration<double> const wait_limit;
    patience const waiting;

private:
    std::vector<shared_slot> slots_;
    std::atomic<bool> stopped_{false};
    mutable std::mutex mutex_;
    std::exception_ptr why_;
    int culprit_ = -1;
};

/// One rank of a group of threads. Peers' arenas are read in place: a byte on the wire is a byte read from a peer.
class communicator {
public:
    communicator(std::shared_ptr<shared_state> state, int rank) : state_(std::move(state)), rank_(rank) {}

    /// Bytes that the group itself takes per rank, for the plan.
    static constexpr bytes_t control_bytes = sizeof(shared_slot);

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return state_->size(); }

    /// Zeroed memory that peers can read. Every rank calls it in the same order; a peer may use the result once a
    /// collective has been entered.
    arena allocate(std::size_t bytes) {
        if (allocated_ == max_arenas) throw usage_error("a rank of a thread group has at most 8 arenas");
        auto const id = allocated_++;
        memory_[static_cast<std::size_t>(id)] = host_memory(bytes);
        auto* const data = memory_[static_cast<std::size_t>(id)].data();
        state_->slot(rank_).arenas[static_cast<std::size_t>(id)] = data;
        return {id, data, bytes};
    }

    template<class T>
    T const* peer(arena const& a, int rank) const noexcept {
        return shared<T>(a, rank);
    }

    /// The same to write to.
    template<class T>
    T* shared(arena const& a, int rank) const noexcept {
        return static_cast<T*>(state_->slot(rank).arenas[static_cast<std::size_t>(a.id)]);
    }

    void enter() noexcept { state_->slot(rank_).steps.advance_to(base_ + 1); }
    void complete(int step) noexcept {
        state_->slot(rank_).steps.advance_to(base_ + 2 + static_cast<std::uint32_t>(step));
    }
    void leave(int steps) noexcept { base_ += static_cast<std::uint32_t>(steps) + 1; }

    /// Waits until `source` has completed `after` steps of the collective that this rank has entered.
    void wait_for(int source, int after, operation const& what) {
        auto const target = base_ + 1 + static_cast<std::uint32_t>(after);
        auto& theirs = state_->slot(source).steps;
        if (!theirs.reached(target)) wait_long(theirs, target, source, what);
    }

    void count(bytes_t bytes) noexcept {
        ++pulled_.messages;
        pulled_.bytes += bytes;
    }

    /// What this rank has read from peers since it was made.
    traffic pulled() const noexcept { return pulled_; }

    /// The training step, for messages.
    void at_training_step(std::uint64_t step) noexcept { training_step_ = step; }

    /// Throws group_stopped if another device has failed: for long computations between waits.
    void check_stopped() const {
        if (state_->stopped().load(std::memory_order_relaxed)) throw group_stopped();
    }

private:
    TRIREME_NOINLINE void wait_long(progress& theirs, std::uint32_t target, int source, operation const& what) {
        auto& here = state_->slot(rank_);
        auto const outcome = theirs.wait(target, state_->stopped(), deadline::in(state_->wait_limit), state_->waiting,
                                         [&] { here.waits_for.store(source, std::memory_order_release); });
        if (outcome == progress::outcome::late) {
            auto const guilty = state_->culprit(source); // before this rank stops being part of the chain
            throw deadline_error(guilty, late_message(guilty, source, what));
        }
        here.waits_for.store(-1, std::memory_order_release);
        if (outcome == progress::outcome::stopped) throw group_stopped();
    }

    std::string late_message(int guilty, int source, operation const& what) const {
        char limit[32];
        std::snprintf(limit, sizeof limit, "%g", state_->wait_limit.count());
        auto text = "device " + std::to_string(guilty) + " did not arrive within the deadline of " + limit +
                    " s: device " + std::to_string(rank_) + " waited for device " + std::to_string(source) + " in " +
                    what.name + " (" + what.strategy + ", schedule step " + std::to_string(what.step) +
                    ") of training step " + std::to_string(training_step_) +
                    "; if it is only slow, raise the option `deadline`";
        return text;
    }

    std::shared_ptr<shared_state> state_;
    int rank_;
    int allocated_ = 0;
    std::uint32_t base_ = 0;
    std::uint64_t training_step_ = 0;
    traffic pulled_;
    std::array<host_memory, max_arenas> memory_;
};

} // namespace trireme::threads
