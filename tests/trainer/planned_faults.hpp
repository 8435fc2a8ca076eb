// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/fault_points.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <thread>

// Faults of devices that are threads.
namespace test_faults {
using trireme::fault_point;

/// What the fault policy below does, set by a test before it trains.
struct planned_fault {
    fault_point point{};
    int device = -1;
    std::uint64_t step = 0;
    double sleep_seconds = 0; ///< 0: throw
};
inline std::mutex planning; // a device that was left behind may still look at the plan of the test before
inline planned_fault current_plan;
inline std::atomic<int> asleep{0};

inline void plan_fault(planned_fault const& f = {}) {
    std::lock_guard const lock(planning);
    current_plan = f;
}

struct planned_faults {
    static void at(fault_point p, int device, std::uint64_t step) {
        std::unique_lock lock(planning);
        auto const planned = current_plan;
        lock.unlock();
        if (p != planned.point || device != planned.device || step != planned.step) return;
        if (planned.sleep_seconds == 0) throw std::runtime_error("the oar is broken");
        ++asleep;
        std::this_thread::sleep_for(std::chrono::duration<double>(planned.sleep_seconds));
        --asleep;
    }
};

/// A stalled device is left behind; a test waits for it to wake before it goes on.
inline void until_all_awake() {
    while (asleep != 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(150)); // and to leave its job
}

} // namespace test_faults
