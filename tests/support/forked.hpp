// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/failed_checks.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/// Memory that a test shares with the processes it forks: for counters, and for what they find.
template<class T>
class shared_value {
public:
    shared_value() {
        auto* const at = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) throw std::bad_alloc();
        value_ = new (at) T{};
    }
    shared_value(shared_value const&) = delete;
    shared_value& operator=(shared_value const&) = delete;
    ~shared_value() { munmap(value_, sizeof(T)); }
    T& operator*() const noexcept { return *value_; }
    T* operator->() const noexcept { return value_; }

private:
    T* value_;
};

/// A forked rank ended in this way.
struct rank_ending {
    bool ended = false; ///< within the time that it was given
    int code = -1;      ///< its exit code; -1 if a signal ended it
    int signal = 0;
    double seconds = 0; ///< since the ranks were started
    std::string said;   ///< what it threw, or its own words
};

/// Ranks that are forked from the test: real processes, to be killed, stopped and continued. Each runs a function of
/// its rank; what that throws is told to the test, with exit code 3, and its first assertion that has failed, with
/// `check_failed`, else it ends with code 0. None outlives the test.
class forked_ranks {
public:
    forked_ranks(int ranks, std::function<void(int)> const& f) : start_(clock::now()) {
        std::fflush(nullptr); // or children print it once more
        for (int r = 0; r < ranks; ++r) {
            auto const process = fork();
            if (process < 0) throw std::runtime_error("fork failed");
            if (process == 0) child(r, f);
            processes_.push_back(process);
        }
        endings_.resize(processes_.size());
    }
    forked_ranks(forked_ranks const&) = delete;
    forked_ranks& operator=(forked_ranks const&) = delete;
    ~forked_ranks() {
        for (std::size_t r = 0; r < processes_.size(); ++r) {
            if (endings_[r].ended) continue;
            kill(processes_[r], SIGKILL);
            waitpid(processes_[r], nullptr, 0);
        }
    }

    void send(int rank, int signal) const { kill(processes_[static_cast<std::size_t>(rank)], signal); }
    int process(int rank) const { return processes_[static_cast<std::size_t>(rank)]; }

    /// Waits until all ranks but `except` have ended, or `limit` has passed since now.
    std::vector<rank_ending> const& wait(std::chrono::duration<double> limit, int except = -1) {
        auto const end = clock::now() + std::chrono::duration_cast<clock::duration>(limit);
        for (bool left = true; left && clock::now() < end;) {
            left = false;
            for (std::size_t r = 0; r < processes_.size(); ++r) {
                auto& o = endings_[r];
                int status = 0;
                if (!o.ended && waitpid(processes_[r], &status, WNOHANG) == processes_[r]) {
                    o.ended = true;
                    o.seconds = std::chrono::duration<double>(clock::now() - start_).count();
                    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
                    o.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
                    o.said = (*said_)[r].data();
                }
                left = left || (!o.ended && static_cast<int>(r) != except);
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return endings_;
    }

    static constexpr int most = 64;
    static constexpr int check_failed = 5; ///< the exit code of a rank in which an assertion has failed
    using text = std::array<char, 1600>;

    /// For the ranks: leaves words for the test.
    static void say(text& to, std::string_view words) noexcept {
        auto const n = std::min(words.size(), to.size() - 1);
        std::memcpy(to.data(), words.data(), n);
        to[n] = 0;
    }

private:
    using clock = std::chrono::steady_clock;

    [[noreturn]] void child(int rank, std::function<void(int)> const& f) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // a test that is killed leaves no orphans
        alarm(0);
        test_failed_checks::forget();
        auto& said = (*said_)[static_cast<std::size_t>(rank)];
        int code = 0;
        try {
            f(rank);
        } catch (std::exception const& e) {
            say(said, e.what());
            code = 3;
        } catch (...) { // a REQUIRE that fails throws no std::exception
            code = 9;
        }
        if (auto const& failed = test_failed_checks::first(); !failed.empty()) {
            say(said, failed);
            code = check_failed;
        }
        std::fflush(nullptr);
        _exit(code); // no destructors or reports of the test's own
    }

    clock::time_point start_;
    shared_value<std::array<text, most>> said_;
    std::vector<pid_t> processes_;
    std::vector<rank_ending> endings_;
};

/// Waits until all ranks have ended, for `limit` at the most: each but `except` has ended with code 0.
inline void all_end_well(forked_ranks& ranks, std::chrono::duration<double> limit, int except = -1) {
    int rank = 0;
    for (auto const& end : ranks.wait(limit)) {
        CAPTURE(rank);
        CAPTURE(end.ended);
        CAPTURE(end.signal);
        CAPTURE(end.said);
        if (rank != except) CHECK(end.code == 0);
        ++rank;
    }
}
