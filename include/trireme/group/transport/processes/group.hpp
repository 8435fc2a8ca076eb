// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/left_behind.hpp>
#include <trireme/core/levels.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/helper_thread.hpp>
#include <trireme/device/host/watched_deadline.hpp>
#include <trireme/group/transport/processes/communicator.hpp>
#include <trireme/group/transport/processes/state.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <unistd.h>

namespace trireme::processes {

/// A thread that shows this process's heartbeat to the others, ten times a second: one that is stopped shows none.
class heartbeat {
public:
    explicit heartbeat(std::shared_ptr<state> s)
        : state_(std::move(s)), thread_(without_signals([this] {
              return start_thread("the heartbeat of rank " + std::to_string(state_->known_as(state_->rank())),
                                  [this] { beat(); });
          })) {}
    heartbeat(heartbeat const&) = delete;
    heartbeat& operator=(heartbeat const&) = delete;
    ~heartbeat() {
        {
            std::lock_guard const lock(mutex_);
            over_ = true;
        }
        wake_.notify_one();
        thread_.join();
    }

private:
    void beat() {
        std::unique_lock lock(mutex_);
        while (!over_) {
            state_->slot(state_->rank()).heartbeat.store(shared_clock(), std::memory_order_relaxed);
            wake_.wait_for(lock, std::chrono::milliseconds(100));
        }
    }

    std::shared_ptr<state> state_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool over_ = false;
    std::thread thread_; ///< last, for it uses the others
};

/// A group whose ranks are processes of one machine, seen from one of them. All of them run the same program on it.
///
/// What a function that `run` is given throws stops all ranks: here it arrives as it would from a group of threads, on
/// the others as what stopped them. A rank whose process dies is named by a peer_lost_error on all others within 0.2 s,
/// once one of them waits; one that is stopped or stuck by a deadline_error. A group that has been stopped stays so.
class group {
public:
    /// Joins the others at `where` as `rank`. Throws deadline_error if not all come within `limit`, launch_error if
    /// they do not agree in `agreed`: what the program is and how it is spread, in words; or if the system has no
    /// thread. `known_as`: the number of the rank in a larger group, for messages and errors; `join_by`: an end of the
    /// wait for all that is not `limit` from now.
    group(meeting_place where, int rank, std::chrono::duration<double> limit = std::chrono::seconds(30),
          levels const& near = {}, std::string_view agreed = {}, int known_as = -1,
          std::optional<deadline> const& join_by = std::nullopt)
        : state_(std::make_shared<state>(checked(where, rank, near), rank, limit, near)), communicator_(state_, rank) {
        auto& mine = state_->slot(rank);
        auto const name = "rank " + std::to_string(known_as < 0 ? rank : known_as);
        auto found = presence::awaited;
        if (!mine.present.compare_exchange_strong(found, presence::joining, std::memory_order_acq_rel)) {
            if (found == presence::left)
                throw launch_error(name + " has left this group: a meeting place serves once, make a new one");
            throw launch_error(name + " of this group has been taken by process " +
                               std::to_string(mine.process.load()) + ": every process needs a number of its own");
        }
        mine.agreed.set(agreed);
        mine.known_as.store(known_as < 0 ? rank : known_as, std::memory_order_relaxed);
        sched_getaffinity(0, sizeof mine.processors, &mine.processors);
        mine.process.store(getpid(), std::memory_order_relaxed);
        mine.heartbeat.store(shared_clock(), std::memory_order_relaxed);
        mine.present.store(presence::here, std::memory_order_release);
        try {
            await_all(watched_deadline(join_by ? *join_by : deadline::in(limit)), known_as >= 0);
            compare_agreed();
            state_->adapt_patience();
            heartbeat_ = std::make_unique<heartbeat>(state_);
        } catch (...) {
            state_->stop(rank, std::current_exception());
            throw;
        }
    }
    group(group const&) = delete;
    group& operator=(group const&) = delete;

    /// Leaves, in the process that has joined. After an error outside of `run` that the others have not had, they are
    /// told that this rank will not come again.
    ~group() {
        if (!runs_.process().is_this()) { // a fork's copy: its thread is not here, and what it shows is the original's
            leave_behind(std::move(heartbeat_));
            return;
        }
        if (!stopped() && std::uncaught_exceptions() != exceptions_ && !all_leave())
            state_->stop(stop_reason::made(stop_reason::kind::failed, state_->known_as(rank()), 0, taken_away));
        heartbeat_.reset();
        state_->slot(rank()).present.store(presence::left, std::memory_order_release);
    }

    int rank() const noexcept { return state_->rank(); }
    int size() const noexcept { return state_->size(); }
    bool stopped() const noexcept { return state_->stopped().load(); }
    /// True if this rank knows that the group has been stopped: an error has been thrown here.
    bool failed() const noexcept { return runs_.failed(); }
    communicator& own() noexcept { return communicator_; }
    /// The spins of this rank's waits, as the processors of the group's ranks allow.
    patience const& waiting() const noexcept { return state_->waiting; }
    communicator const& own() const noexcept { return communicator_; }

    /// Stops all ranks for a reason found elsewhere.
    void stop(stop_reason const& why) noexcept { state_->stop(why); }
    /// True if the process of a rank has ended without leaving.
    bool is_gone(int rank) { return state_->is_gone(rank); }
    /// Throws if the group has been stopped, or a rank of it is gone: for those who wait for something else.
    void look_around() {
        state_->look_around(rank());
        if (stopped()) state_->throw_stopped();
    }

    /// Runs `f(communicator&)` on this rank; every rank has to. Allocates nothing.
    template<class F>
    void run(F&& f) {
        runs_.run(state_->known_as(rank()), communicator_, f, [&](stop_reason const& why) { state_->stop(why); });
    }

private:
    TRIREME_COLD static meeting_place checked(meeting_place where, int rank, levels const& near) {
        auto const ranks = where.table().ranks;
        if (rank < 0 || rank >= ranks)
            throw usage_error("rank " + std::to_string(rank) + " of a group of " + std::to_string(ranks) +
                              ": it is a number from 0 to " + std::to_string(ranks - 1));
        check_levels(ranks, near);
        return where;
    }

    /// True if all other ranks leave as well within a moment: they may throw alike, as where a loss is not finite, and
    /// then each tells its own error. A group that is stopped ends the wait, for then all ranks have a reason: by the
    /// death of a rank, or by a rank that waits for a call which this one will not make (`state::look_around`). Ranks
    /// that only compute end it before the deadline of those that wait for them.
    TRIREME_COLD bool all_leave() noexcept {
        auto& mine = state_->slot(rank());
        mine.present.store(presence::leaving, std::memory_order_seq_cst);
        for (auto& lane : mine.lanes) lane.steps.wake(); // the ranks that wait for this one look round
        watched_deadline most(
            deadline::in(std::min<std::chrono::duration<double>>(std::chrono::seconds(1), state_->wait_limit / 4)));
        for (int r = 0; r < size(); ++r)
            while (state_->slot(r).present.load(std::memory_order_acquire) < presence::leaving) {
                state_->look_around(rank());
                if (stopped()) return true;
                if (most.passed()) return false;
                std::this_thread::sleep_for(std::chrono::microseconds(200));
            }
        return true;
    }

    bool is_awaited(int r) const noexcept {
        auto const present = state_->slot(r).present.load(std::memory_order_acquire);
        return present == presence::awaited || present == presence::joining;
    }

    /// `in_larger_group`: nobody here knows the number there of a rank that has not come.
    TRIREME_COLD void await_all(watched_deadline limit, bool in_larger_group) {
        for (int r = 0; r < size(); ++r) {
            while (is_awaited(r)) {
                if (stopped()) state_->throw_stopped();
                state_->look_around(rank());
                if (limit.passed()) {
                    std::string const me = std::to_string(state_->known_as(rank())), all = std::to_string(size());
                    auto const who = in_larger_group ? me + ", one of " + all + " on its machine," : me + " of " + all;
                    std::string absent = in_larger_group ? " at the places" : "";
                    for (int q = r; q < size(); ++q)
                        if (is_awaited(q)) absent += ' ' + std::to_string(q);
                    throw deadline_error(in_larger_group ? -1 : r,
                                         "rank " + who + " waited for the others to join for the deadline of " +
                                             seconds_text(state_->wait_limit) + " s; absent:" + absent +
                                             "; look at what these processes say, or raise the option `deadline`");
                }
                std::this_thread::sleep_for(std::chrono::microseconds(200));
            }
        }
        for (int r = 0; r < size(); ++r) state_->is_gone(r); // now its number is surely its own
    }

    TRIREME_COLD void compare_agreed() const {
        auto const mine = state_->slot(rank()).agreed.get();
        for (int r = 0; r < size(); ++r)
            require_one_program(state_->known_as(rank()), mine, state_->known_as(r), state_->slot(r).agreed.get());
    }

    std::shared_ptr<state> state_;
    communicator communicator_;
    std::unique_ptr<heartbeat> heartbeat_;
    runs_until_failure runs_;
    int exceptions_ = std::uncaught_exceptions();
};

} // namespace trireme::processes
