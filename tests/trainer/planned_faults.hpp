// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/waiting.hpp>

#include <trireme/core/fault_points.hpp>
#include <trireme/schedule/pipeline/trace.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Faults of devices that are threads, and of any devices in front of a task of their step programs.
namespace test_faults {
using trireme::fault_point;

inline std::atomic<int> asleep{0};

/// A device calls this to stall.
inline void fall_asleep(std::chrono::duration<double> time) {
    ++asleep;
    std::this_thread::sleep_for(time);
    --asleep;
}
/// A stalled device is left behind; a test waits for it to wake before it goes on.
inline void until_all_awake() {
    while (asleep != 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(150)); // and to leave its job
}

/// The fault policy below follows this plan, set by a test before it trains.
struct planned_fault {
    fault_point point{};
    int device = -1;
    std::uint64_t step = 0;
    double sleep_seconds = 0; ///< 0: throw
    int nth = 0;              ///< of the calls at this point in the step
};
inline std::mutex planning; // a device that was left behind may still look at the plan of the test before
inline planned_fault current_plan;

inline void plan_fault(planned_fault const& f = {}) {
    std::lock_guard const lock(planning);
    current_plan = f;
}

struct planned_faults {
    static void at(fault_point p, int device, std::uint64_t step) {
        std::unique_lock lock(planning);
        auto& planned = current_plan;
        if (p != planned.point || device != planned.device || step != planned.step || planned.nth-- != 0) return;
        auto const seconds = planned.sleep_seconds;
        lock.unlock();
        if (seconds == 0) throw std::runtime_error("the oar is broken");
        fall_asleep(std::chrono::duration<double>(seconds));
    }
};

/// The message of the deadline error that names the device of `fault`, which stalls instead of throwing.
/// `make(deadline)` makes a trainer, with at least the deadline `shortest`, and `step(trainer)` is one step.
template<class Make, class Step>
std::string error_of_stall(planned_fault fault, std::chrono::milliseconds shortest, Make const& make,
                           Step const& step) {
    auto const before = [&](auto& trainer) {
        for (std::uint64_t k = 1; k < fault.step; ++k) step(trainer);
    };
    auto const found = test_waiting::with_time_enough(shortest, fault.device, [&](std::chrono::milliseconds deadline) {
        fault.sleep_seconds = std::chrono::duration<double>(3 * deadline).count();
        plan_fault(fault);
        auto const outcome = test_waiting::outcome_of_stall([&] { return make(deadline); }, before, step);
        until_all_awake();
        plan_fault();
        return outcome;
    });
    CAPTURE(found.said);
    REQUIRE(found.stalled);
    REQUIRE(found.device == fault.device);
    return found.said;
}

/// The fault policy that makes one device fail in front of one task of its step program, in step 2.
struct task_faults {
    static constexpr std::uint64_t step = 2;
    static constexpr std::size_t most_devices = 8;

    /// `fail` throws, sleeps or sends a signal; device -1 plans no fault.
    static void plan(int device = -1, std::size_t task = 0, std::function<void()> fail = {}) {
        std::lock_guard const lock(planning);
        planned = {device, task, std::move(fail)};
        for (auto& tasks : in_first_step) tasks = 0;
        counted = {0, 0, 0}; // of device 0, which is the caller's thread: its last step may have ended before a task
        ++plans;
    }
    static void at(fault_point p, int device, std::uint64_t number) {
        if (p != fault_point::task) return;
        std::unique_lock lock(planning);
        auto& mine = counted;
        if (number == 1 && mine.step != 1) mine.plan = plans; // a device that was left behind keeps an older one
        if (number != mine.step) mine = {number, 0, mine.plan};
        auto const task = mine.tasks++;
        if (mine.plan != plans) return;
        if (number == 1) in_first_step[static_cast<std::size_t>(device)] = mine.tasks;
        if (number != step || device != planned.device || task != planned.task) return;
        auto const fail = planned.fail;
        lock.unlock();
        fail();
    }

    /// Tasks that each device has begun in step 1.
    static inline std::array<std::atomic<std::size_t>, most_devices> in_first_step;

private:
    struct fault {
        int device;
        std::size_t task;
        std::function<void()> fail;
    };
    struct count {
        std::uint64_t step;
        std::size_t tasks;
        std::uint64_t plan;
    };
    static inline fault planned{-1, 0, {}};
    static inline std::uint64_t plans = 0;
    static inline thread_local count counted{0, 0, 0};
};

/// True if a rank's tasks of a step in a trace are the first `tasks` of its list; a rank that has failed there failed
/// in the next one.
inline bool has_done(std::vector<trireme::timed_task> const& trace, int rank, std::span<trireme::step_task const> list,
                     std::size_t tasks, std::uint64_t step = task_faults::step) {
    std::size_t done = 0;
    for (auto const& one : trace) {
        if (one.rank != rank || one.step != step || one.exchange >= 0) continue;
        if (done == list.size() || one.kind != list[done].kind || one.micro_batch != trireme::counted_by(list[done]))
            return false;
        ++done;
    }
    return done == tasks;
}

} // namespace test_faults
