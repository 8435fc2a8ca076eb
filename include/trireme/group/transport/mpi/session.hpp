// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/exit_code.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/helper_thread.hpp>
#include <trireme/device/host/own_process.hpp>
#include <trireme/group/launch.hpp>
#include <trireme/group/transport/mpi/errors.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include <unistd.h>

namespace trireme {

namespace mpi_runtime {

/// Ends the process if a call of MPI does not return: a thread that makes none. Guards are cheap, and each stands for
/// itself: one may stand within another, and every thread may have its own.
class watchdog {
public:
    static watchdog& of_process() {
        static auto& it = *new watchdog; // never destroyed: it guards MPI_Finalize, too
        return it;
    }

    class guard {
    public:
        /// `limit` and a second for messages from now; `what` is a literal.
        guard(std::chrono::duration<double> limit, char const* what) : what_(what), since_(shared_clock()) {
            auto const seconds = limit.count() < 1e9 ? limit.count() : 1e9;
            until_ = since_ + static_cast<std::int64_t>((seconds + 1) * 1e9);
            auto& w = of_process();
            std::lock_guard const lock(w.mutex_);
            number_ = ++w.guards_;
            next_ = w.first_;
            if (next_ != nullptr) next_->before_ = this;
            w.first_ = this;
        }
        guard(guard const&) = delete;
        guard& operator=(guard const&) = delete;
        ~guard() {
            auto& w = of_process();
            std::lock_guard const lock(w.mutex_);
            (before_ != nullptr ? before_->next_ : w.first_) = next_;
            if (next_ != nullptr) next_->before_ = before_;
        }

    private:
        friend watchdog;
        char const* what_;
        std::int64_t since_, until_ = 0;
        std::uint64_t number_ = 0;
        guard* before_ = nullptr;
        guard* next_ = nullptr;
    };

    /// For its message.
    void know_rank(int rank) noexcept { rank_.store(rank); }

private:
    watchdog() {
        without_signals([this] {
            start_thread("the watchdog of MPI", [this] { watch(); }).detach();
            return 0;
        });
    }

    struct late_guard {
        std::uint64_t number = 0; ///< 0: none is late
        char const* what = "";
    };
    late_guard find_late(std::uint64_t number = 0) noexcept {
        std::lock_guard const lock(mutex_);
        for (auto const* g = first_; g != nullptr; g = g->next_)
            if (shared_clock() >= g->until_ && (number == 0 || number == g->number_)) return {g->number_, g->what_};
        return {};
    }

    /// Moves the limits of calls if a short sleep since `before` took so long that the process was stopped meanwhile,
    /// as a watched_deadline does it for waits.
    void allow_for_stop(std::int64_t before) noexcept {
        auto const now = shared_clock();
        if (now - before < 1'000'000'000) return;
        std::lock_guard const lock(mutex_);
        for (auto* g = first_; g != nullptr; g = g->next_) g->until_ += now - std::max(before, g->since_);
    }

    void watch() noexcept {
        for (;;) {
            auto const before = shared_clock();
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            allow_for_stop(before);
            auto late = find_late();
            if (late.number == 0) continue;
            // a process that was stopped for a shorter time gets a moment to see that itself
            std::this_thread::sleep_for(std::chrono::seconds(1));
            late = find_late(late.number);
            if (late.number == 0) continue;
            char who[40] = "this process", text[300];
            if (int const rank = rank_.load(); rank >= 0) std::snprintf(who, sizeof who, "rank %d", rank);
            auto const n = std::snprintf(text, sizeof text,
                                         "trireme: %s is stuck in %s for longer than its deadline, and is ended "
                                         "(exit code %d); look at what the other ranks and the launcher say\n",
                                         who, late.what, exit_code::stuck);
            if (write(STDERR_FILENO, text, static_cast<std::size_t>(n)) < 0) {}
            _exit(exit_code::stuck);
        }
    }

    std::mutex mutex_;
    guard* first_ = nullptr; ///< of those that stand
    std::uint64_t guards_ = 0;
    std::atomic<int> rank_{-1};
};

/// MPI, for as long as the process runs. Whoever has initialised it finalises it; if that was nobody, it is done here,
/// and at exit MPI is finalised, or, after a failure, aborted: the other ranks of the job are not left waiting.
class session {
public:
    /// Throws launch_error if MPI cannot be started, or has been finalised.
    static session& begin(std::chrono::duration<double> limit) {
        static auto& s = *new session(limit); // for what runs at exit
        int over = 0;
        MPI_Finalized(&over);
        if (over != 0) throw launch_error("MPI has been finalised, and cannot be used any more: end groups before it");
        return s;
    }

    /// The job cannot end as it should: at exit it is aborted with this code, if MPI is ours.
    void failed(int code) noexcept {
        int none = 0;
        failure_.compare_exchange_strong(none, code);
    }
    bool has_failed() const noexcept { return failure_.load() != 0; }

private:
    explicit session(std::chrono::duration<double> limit) : limit_(limit) {
        int begun = 0;
        MPI_Initialized(&begun);
        if (begun == 0) {
            know_rank_by_launch();
            watchdog::guard const guard(limit, "MPI_Init_thread");
            int provided = MPI_THREAD_SINGLE;
            check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread", 0, "to begin");
            if (provided < MPI_THREAD_FUNNELED)
                throw launch_error("this MPI library allows no other threads in a process that uses it "
                                   "(MPI_THREAD_FUNNELED): take another build of it");
            owner() = this;
            std::atexit([] { owner()->end(); });
        }
        int rank = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        watchdog::of_process().know_rank(rank);
    }
    static void know_rank_by_launch() noexcept {
        try {
            if (auto const by = launch::discover(); by.launched()) watchdog::of_process().know_rank(by.rank);
        } catch (launch_error const&) {} // MPI knows better
    }
    static session*& owner() noexcept {
        static session* it = nullptr;
        return it;
    }

    void end() noexcept {
        if (!process_.is_this()) return; // MPI is that of the process which was forked
        int over = 0;
        MPI_Finalized(&over);
        if (over != 0) return;
        std::fflush(nullptr);
        int size = 1;
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        if (int const code = failure_.load(); code != 0 && size > 1) {
            // launchers end all ranks at once, and some of them are about to say what they have seen
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            watchdog::guard const guard(limit_, "MPI_Abort");
            MPI_Abort(MPI_COMM_WORLD, code);
        } else {
            await_others();
            watchdog::guard const guard(limit_, "MPI_Finalize");
            MPI_Finalize();
        }
    }

    /// A rank that has finished waits here for those that have not, however long they work: that is no failure, and
    /// launchers can end the rank here if another one aborts the job. Within MPI_Finalize Open MPI's cannot.
    static void await_others() noexcept {
        MPI_Request all_here = MPI_REQUEST_NULL;
        if (MPI_Ibarrier(MPI_COMM_WORLD, &all_here) != MPI_SUCCESS) return;
        for (int turn = 0, over = 0; MPI_Test(&all_here, &over, MPI_STATUS_IGNORE) == MPI_SUCCESS && over == 0; ++turn)
            std::this_thread::sleep_for(std::chrono::microseconds(turn < 1000 ? 50 : 5000));
    }

    std::chrono::duration<double> limit_;
    std::atomic<int> failure_{0};
    own_process process_;
};

} // namespace mpi_runtime
} // namespace trireme
