// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/deadline.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/host/watched_deadline.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>
#include <thread>

#if defined(__linux__)
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace trireme {

/// The number of times that a wait spins and yields before it sleeps. A spin answers in 0.2 us, a wake through the
/// kernel in 30 us; but a spinning thread that holds the core its peer needs only delays both.
struct patience {
    int spins = 2000;
    int yields = 200;

    /// For `threads` that wait for one another on the processors this process may use.
    static patience for_threads(int threads) noexcept { return on(threads, processors()); }

    /// For `waiting` threads, of whatever processes, on `processors` that they may use together.
    static patience on(int waiting, int processors) noexcept {
        return waiting <= processors ? patience{} : patience{20, 4};
    }

    static int processors() noexcept {
#if defined(__linux__)
        cpu_set_t set;
        if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
        return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    }
};

enum class wait_outcome : std::uint8_t { reached, stopped, late };

/// A count of completed steps: one thread advances it, any thread waits for it, with a deadline. `Shared`: threads of
/// several processes, which have it in common memory.
///
/// Counts wrap around; two that are compared must lie within 2^31 of each other. What was written before
/// `advance_to(n)` is visible after a wait for n has returned.
template<bool Shared>
class alignas(2 * cache_line) basic_progress {
public:
    std::uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }
    bool reached(std::uint32_t target) const noexcept { return static_cast<std::int32_t>(count() - target) >= 0; }

    void advance_to(std::uint32_t target) noexcept {
        // Sequential consistency orders this store before the load of sleepers_; a waiter does the opposite.
        count_.store(target, std::memory_order_seq_cst);
        wake();
    }

    /// Wakes everyone who sleeps here, so that they look at their `stop` condition again.
    void wake() noexcept {
        if (sleepers_.load(std::memory_order_seq_cst) != 0) wake_all();
    }

    using outcome = wait_outcome;

    /// Waits until the count reaches `target`, `stop` becomes true, or `limit` has passed since the last spin or yield.
    /// `before_sleep` is called before every sleep, which are 100 ms at most: the place to say who is waited for, and
    /// to look after them.
    template<class BeforeSleep>
    outcome wait(std::uint32_t target, std::atomic<bool> const& stop, std::chrono::duration<double> limit, patience p,
                 BeforeSleep&& before_sleep) noexcept {
        if (comes_soon(target, p)) return outcome::reached;
        watched_deadline until(deadline::in(limit));
        return sleep_until_reached(target, stop, until, before_sleep);
    }
    /// A wait with a deadline that several waits have in common.
    template<class BeforeSleep>
    outcome wait(std::uint32_t target, std::atomic<bool> const& stop, watched_deadline& until, patience p,
                 BeforeSleep&& before_sleep) noexcept {
        if (comes_soon(target, p)) return outcome::reached;
        return sleep_until_reached(target, stop, until, before_sleep);
    }

private:
    bool comes_soon(std::uint32_t target, patience p) const noexcept {
        for (int i = 0; i < p.spins; ++i) {
            if (reached(target)) return true;
            relax();
        }
        for (int i = 0; i < p.yields; ++i) {
            if (reached(target)) return true;
            std::this_thread::yield();
        }
        return false;
    }

    template<class BeforeSleep>
    outcome sleep_until_reached(std::uint32_t target, std::atomic<bool> const& stop, watched_deadline& until,
                                BeforeSleep& before_sleep) noexcept {
        auto result = outcome::late;
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        for (;;) {
            auto const seen = count_.load(std::memory_order_seq_cst);
            if (static_cast<std::int32_t>(seen - target) >= 0) {
                result = outcome::reached;
                break;
            }
            if (stop.load(std::memory_order_seq_cst)) {
                result = outcome::stopped;
                break;
            }
            before_sleep();
            if (until.passed()) {
                if (stop.load(std::memory_order_seq_cst)) result = outcome::stopped; // the last look found out why
                break;
            }
            sleep_while(seen, until.left());
        }
        sleepers_.fetch_sub(1, std::memory_order_seq_cst);
        return result;
    }

    static void relax() noexcept {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }

#if defined(__linux__)
    static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
    static constexpr int scope = Shared ? 0 : FUTEX_PRIVATE_FLAG;

    void wake_all() noexcept {
        syscall(SYS_futex, static_cast<void*>(&count_), FUTEX_WAKE | scope, INT_MAX, nullptr, nullptr, 0);
    }

    /// Never longer than 100 ms at a time: a wake that a stopped group could not deliver is noticed soon all the same.
    void sleep_while(std::uint32_t seen, deadline::clock::duration left) noexcept {
        using namespace std::chrono;
        timespec ts{};
        ts.tv_nsec = static_cast<long>(std::clamp<nanoseconds>(left, microseconds(1), milliseconds(100)).count());
        syscall(SYS_futex, static_cast<void*>(&count_), FUTEX_WAIT | scope, seen, &ts, nullptr, 0);
    }
#else
    void wake_all() noexcept {}
    void sleep_while(std::uint32_t, deadline::clock::duration) noexcept {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
#endif

    std::atomic<std::uint32_t> count_{0};
    std::atomic<std::uint32_t> sleepers_{0};
};

using progress = basic_progress<false>;
using shared_progress = basic_progress<true>;

} // namespace trireme
