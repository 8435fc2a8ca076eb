// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/trace.hpp>

#include <chrono>
#include <exception>

namespace trireme::detail {

/// The log of a device's tasks, if it has one, and the moment that its times are counted from.
struct task_clock {
    using clock = std::chrono::steady_clock;

    task_log* log = nullptr;
    clock::time_point origin = {};

    double now() const { return std::chrono::duration<double>(clock::now() - origin).count(); }
};

/// A task that is being done as long as this lives, and then is in the log, unless an exception ends it. `about()`:
/// what it is, but for its times.
class traced_task {
public:
    template<class About>
    traced_task(task_clock const& clock, About const& about) : clock_(clock) {
        if (clock_.log == nullptr) return;
        exceptions_ = std::uncaught_exceptions();
        task_ = about();
        task_.begin = clock_.now();
    }
    traced_task(traced_task const&) = delete;
    traced_task& operator=(traced_task const&) = delete;
    ~traced_task() {
        if (clock_.log == nullptr || std::uncaught_exceptions() > exceptions_) return;
        task_.end = clock_.now();
        clock_.log->add(task_);
    }

private:
    task_clock const& clock_;
    timed_task task_;
    int exceptions_ = 0; ///< that were under way when it began
};

} // namespace trireme::detail
