// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>

// Tests of deadlines, and of threads and processes in an order, on a machine that may leave any thread out for a while.
namespace test_waiting {

/// A trial, in which one device stalls for longer than the deadline, ended in this way.
struct stall_outcome {
    bool stalled = false; ///< the device has come to its stall: all steps before it kept the deadline
    int device = -1;      ///< that the error names; -1: there is none
    std::string said = {};
    std::chrono::milliseconds deadline{0}; ///< of this trial
    int of_others = 0;                     ///< trials before it in which the device stalled, and another one was named
};

/// One trial: `make()` makes a trainer, `before(trainer)` is in time on every device, and one of them stalls in
/// `job(trainer)`. A trainer that has thrown refuses the job afterwards.
template<class Make, class Before, class Job>
stall_outcome outcome_of_stall(Make const& make, Before const& before, Job const& job) {
    stall_outcome found;
    try {
        auto t = make();
        before(t);
        found.stalled = true;
        try {
            job(t);
        } catch (trireme::deadline_error const& e) {
            CHECK_THROWS_AS(job(t), trireme::usage_error);
            found.device = e.device();
            found.said = e.what();
        }
    } catch (trireme::deadline_error const&) {} // devices of a busy machine may be late before the stall
    return found;
}

/// The last of up to six trials, `trial(deadline)`. A busy machine may make any device late: a trial in which the
/// device does not come to its stall, or in which the error names another one than `device`, is made again with twice
/// the time. A test checks the whole outcome of the last trial: no trial is repeated for its message, and an error that
/// never comes, or always names another device, fails after the sixth one.
template<class Trial>
stall_outcome with_time_enough(std::chrono::milliseconds deadline, int device, Trial const& trial) {
    int of_others = 0;
    for (int left = 5;; --left, deadline *= 2) {
        stall_outcome found = trial(deadline);
        found.deadline = deadline;
        found.of_others = of_others;
        if (left == 0 || (found.stalled && found.device == device)) return found;
        of_others += found.stalled ? 1 : 0;
    }
}

/// Waits until `holds()`, for a minute at the most; false if that has passed.
template<class Condition>
bool comes_true(Condition const& holds) {
    for (int i = 0; i < 60000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return holds();
}

} // namespace test_waiting
