// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/floats.hpp>
#include <trireme/device/host/helper_thread.hpp>
#include <trireme/device/host/watched_deadline.hpp>
#include <trireme/group/late.hpp>
#include <trireme/group/running.hpp>
#include <trireme/group/transport/threads/communicator.hpp>

#include <algorithm>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

namespace trireme::threads {

/// A group of devices that are threads of this process: SPMD, the same function on every rank. The caller's thread is
/// rank 0; the others are started once and live as long as the group.
///
/// A function that throws on one rank stops all of them; `run` then throws a device_error that names the rank. A rank
/// that does not come back in time is named by a deadline_error and left behind: the group's memory, its arenas and the
/// job's context stay alive until it wakes and ends by itself. A group that has been stopped stays stopped.
class group {
public:
    /// A job: what it works on, kept alive while any rank is in it, and the function.
    struct job {
        std::shared_ptr<void> context;
        void (*function)(void* context, communicator& c) = nullptr;
    };

    /// `groups` says which ranks are near one another, for hierarchical strategies and for costs: {4, 2} are two
    /// groups of four. Throws usage_error if those are not `ranks` ranks, launch_error if the system has no thread.
    TRIREME_COLD explicit group(int ranks, std::chrono::duration<double> wait_limit = std::chrono::seconds(30),
                                levels const& groups = {})
        : shared_(std::make_shared<shared>(checked(ranks, groups), wait_limit, groups)) {
        threads_.reserve(static_cast<std::size_t>(ranks - 1));
        try {
            for (int r = 1; r < ranks; ++r)
                threads_.push_back(start_thread("device " + std::to_string(r) + " of " + std::to_string(ranks),
                                                [s = shared_, r] { work(*s, r); }));
        } catch (...) { // the system refused a thread: the ones that run are sent home
            finish();
            throw;
        }
    }
    group(group const&) = delete;
    group& operator=(group const&) = delete;
    ~group() { finish(); }

    int size() const noexcept { return shared_->state->size(); }
    bool stopped() const noexcept { return shared_->state->stopped().load(); }

    /// Runs `f(communicator&)` on every rank and returns when all have finished. What `f` captures by reference must
    /// outlive a rank that is late: after an error the others are waited for until the deadline, but not longer.
    template<class F>
    void run(F f) {
        auto context = std::make_shared<F>(std::move(f));
        run(job{std::move(context), [](void* p, communicator& c) { call_with(c, *static_cast<F*>(p)); }},
            shared_->state->wait_limit);
    }

    /// Runs a job, which owns its context, on every rank without an allocation: after an error the caller waits for a
    /// rank that is stuck no longer than `grace`.
    void run(job j, std::chrono::duration<double> grace = std::chrono::milliseconds(500)) {
        if (stopped())
            throw usage_error("this group was stopped by an earlier error and cannot run again: make a new one");
        one_run_([&] {
            auto& state = *shared_->state;
            shared_->current = std::move(j);
            ++jobs_;
            for (int r = 1; r < size(); ++r) state.slot(r).issued.advance_to(jobs_);
            perform(*shared_, 0);
            await_others(std::min(grace, state.wait_limit));
            if (stopped()) state.rethrow();
            shared_->current = {};
        });
    }

    /// Rank r's communicator, for use between runs: counters, arenas.
    communicator& at(int rank) const noexcept { return shared_->ranks[static_cast<std::size_t>(rank)]; }

private:
    struct shared {
        TRIREME_COLD shared(int size, std::chrono::duration<double> wait_limit, levels const& groups)
            : state(std::make_shared<shared_state>(size, wait_limit, groups)) {
            for (int r = 0; r < size; ++r) ranks.emplace_back(state, r);
        }
        std::shared_ptr<shared_state> state;
        std::deque<communicator> ranks; // which stay where they are
        job current;
        std::atomic<bool> quit{false};
    };

    TRIREME_COLD static int checked(int ranks, levels const& groups) {
        if (ranks < 1) throw usage_error("a group needs at least one device, not " + std::to_string(ranks));
        check_levels(ranks, groups);
        return ranks;
    }

    /// Waits for all other ranks to come back from the current job: until the deadline, or, once the group is stopped,
    /// for one `grace` that they share.
    TRIREME_COLD void await_others(std::chrono::duration<double> grace) {
        auto& state = *shared_->state;
        std::atomic<bool> const never{false};
        watched_deadline limit(deadline::in(state.wait_limit));
        bool in_grace = false;
        for (int r = 1; r < size(); ++r) {
            auto& finished = state.slot(r).finished;
            auto const how = finished.wait(jobs_, state.stopped(), limit, state.waiting, [] {});
            if (how == wait_outcome::reached) continue;
            if (how == wait_outcome::late && !in_grace) {
                auto const guilty = culprit_of(state, r); // r itself may be waiting for another
                auto const text = guilty == 0
                                      ? "device 0 has returned, but device " + std::to_string(r) +
                                            " waits for it, in a collective that device 0 did not enter, or for a "
                                            "message that it did not send"
                                      : late_text("device " + std::to_string(guilty), "finish", " after device 0 had");
                state.stop(guilty, std::make_exception_ptr(deadline_error(guilty, text)));
            }
            if (!in_grace) limit = watched_deadline(deadline::in(grace));
            in_grace = true;
            finished.wait(jobs_, never, limit, state.waiting, [] {});
        }
    }

    static void perform(shared& s, int rank) noexcept {
        try {
            auto const j = s.current; // keeps the context alive while this rank is in it
            with_default_floats([&] { j.function(j.context.get(), s.ranks[static_cast<std::size_t>(rank)]); });
        } catch (group_stopped const&) { // somebody else has said why, unless a user's function threw it
            if (!s.state->stopped()) s.state->stop(rank, std::current_exception());
        } catch (deadline_error const& e) {
            s.state->stop(e.device(), std::current_exception());
        } catch (...) {
            s.state->stop(rank, std::current_exception());
        }
    }

    static void work(shared& s, int rank) {
        auto& slot = s.state->slot(rank);
        auto const rest = std::chrono::hours(24 * 365); // between jobs a rank may sleep as long as it likes
        for (std::uint32_t next = 1;; ++next) {
            while (slot.issued.wait(next, s.quit, rest, s.state->waiting, [] {}) == wait_outcome::late) {}
            if (!slot.issued.reached(next)) return;
            perform(s, rank);
            slot.finished.advance_to(next);
        }
    }

    /// Joins the ranks that have come back; leaves a stuck one to itself. A forked process has none of them.
    void finish() noexcept {
        auto& state = *shared_->state;
        shared_->quit.store(true);
        for (std::size_t i = 0; i < threads_.size(); ++i) {
            auto& slot = state.slot(static_cast<int>(i) + 1);
            slot.issued.wake();
            if (slot.finished.reached(jobs_) && one_run_.process().is_this())
                threads_[i].join();
            else
                threads_[i].detach();
        }
    }

    std::shared_ptr<shared> shared_;
    std::vector<std::thread> threads_;
    std::uint32_t jobs_ = 0;
    one_run one_run_;
};

} // namespace trireme::threads
