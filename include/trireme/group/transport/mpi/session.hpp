// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/exit_code.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/host/helper_thread.hpp>
#include <trireme/group/transport/mpi/errors.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
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

/// Ends the process if a call of MPI does not return: a thread that makes none. Guards are cheap, two stores, and one
/// may stand within another.
class watchdog {
public:
    static watchdog& of_process() {
        static auto& it = *new watchdog; // never destroyed: it guards MPI_Finalize, too
        return it;
    }

    class guard {
    public:
        /// `limit` and a second for messages from now; `what` is a literal.
        guard(std::chrono::duration<double> limit, char const* what)
            : before_(of_process().until_.load(std::memory_order_relaxed)),
              what_before_(of_process().what_.load(std::memory_order_relaxed)) {
            auto& w = of_process();
            auto const seconds = limit.count() < 1e9 ? limit.count() : 1e9;
            w.what_.store(what, std::memory_order_relaxed);
            w.until_.store(shared_clock() + static_cast<std::int64_t>((seconds + 1) * 1e9), std::memory_order_release);
        }
        guard(guard const&) = delete;
        guard& operator=(guard const&) = delete;
        ~guard() {
            auto& w = of_process();
            w.what_.store(what_before_, std::memory_order_relaxed);
            w.until_.store(before_, std::memory_order_release);
        }

    private:
        std::int64_t before_;
        char const* what_before_;
    };

    /// For its message.
    void know_rank(int rank) noexcept { rank_.store(rank); }

private:
    static constexpr std::int64_t never = INT64_MAX;

    watchdog() {
        without_signals([this] {
            start_thread("the watchdog of MPI", [this] { watch(); }).detach();
            return 0;
        });
    }

    void watch() const noexcept {
        for (;;) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            if (shared_clock() < until_.load(std::memory_order_acquire)) continue;
            // a process that was stopped has come back to a limit long gone: it gets a moment to see that itself
            std::this_thread::sleep_for(std::chrono::seconds(1));
            if (shared_clock() < until_.load(std::memory_order_acquire)) continue;
            char text[300];
            auto const n = std::snprintf(text, sizeof text,
                                         "trireme: rank %d is stuck in %s for longer than its deadline, and is ended "
                                         "(exit code %d); look at what the other ranks and the launcher say\n",
                                         rank_.load(), what_.load(), exit_code::stuck);
            if (write(STDERR_FILENO, text, static_cast<std::size_t>(n)) < 0) {}
            _exit(exit_code::stuck);
        }
    }

    std::atomic<std::int64_t> until_{never};
    std::atomic<char const*> what_{""};
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

private:
    explicit session(std::chrono::duration<double> limit) : limit_(limit) {
        int begun = 0;
        MPI_Initialized(&begun);
        if (begun == 0) {
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
    static session*& owner() noexcept {
        static session* it = nullptr;
        return it;
    }

    void end() noexcept {
        int over = 0;
        MPI_Finalized(&over);
        if (over != 0) return;
        std::fflush(nullptr);
        watchdog::guard const guard(limit_, "MPI_Finalize");
        int size = 1;
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        if (int const code = failure_.load(); code != 0 && size > 1) {
            // launchers end all ranks at once, and some of them are about to say what they have seen
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            MPI_Abort(MPI_COMM_WORLD, code);
        } else
            MPI_Finalize();
    }

    std::chrono::duration<double> limit_;
    std::atomic<int> failure_{0};
};

} // namespace mpi_runtime
} // namespace trireme
