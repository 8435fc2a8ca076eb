// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/schedule/pipeline/trace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace trireme::detail {

/// The logs of the tasks that the accelerators of a process do, if they are traced. Devices note the times by their own
/// clocks; they are counted from the first task.
class stream_log {
public:
    /// A replica's evaluation in a slot.
    using evaluation = std::pair<std::size_t, int>;

    void begin(std::size_t ranks) {
        for (std::size_t i = 0; i < ranks; ++i) logs_.push_back(std::make_unique<task_log>());
    }
    std::size_t ranks() const noexcept { return logs_.size(); } ///< 0: nothing is traced

    std::vector<timed_task> read() const {
        std::vector<timed_task> all;
        for (auto const& log : logs_)
            for (auto const& t : log->read()) all.push_back(t);
        return all;
    }

    /// Adds the tasks of some ranks in a step or, with number 0, in an evaluation; their times are there.
    template<class Executor>
    void add(Executor const& e, std::uint64_t number, int slot, range some) {
        auto const seconds_of = [&](std::uint64_t time) { // an evaluation of another replica may have begun before
            return 1e-9 * static_cast<double>(static_cast<std::int64_t>(time - origin_));
        };
        for (auto i = some.begin; i < some.end && !has_origin_; ++i) // all clocks begin with the first task
            e.for_times(*e.ranks[i], slot, number == 0,
                        [&](step_task const&, int, std::uint64_t begin, std::uint64_t, bool) {
                            origin_ = std::min(origin_, begin);
                        });
        has_origin_ = has_origin_ || some.size() != 0;
        for (auto i = some.begin; i < some.end; ++i)
            e.for_times(*e.ranks[i], slot, number == 0,
                        [&](step_task const& t, int exchange, std::uint64_t begin, std::uint64_t end, bool beside) {
                            int const rank = e.ranks[i]->number;
                            int const stage = e.layout.stage_of(rank, t.chunk);
                            logs_[i]->add({rank, number, t.kind, stage, counted_by(t), seconds_of(begin),
                                           seconds_of(end), beside ? 1 : 0, exchange});
                        });
    }

    /// Notes an evaluation that has been handed over: its times are to be added before another one takes its slot.
    void note(evaluation const& e) {
        if (!logs_.empty()) noted_.push_back(e);
    }
    bool has_noted() const noexcept { return !noted_.empty(); }
    bool has_noted(evaluation const& e) const { return std::ranges::find(noted_, e) != noted_.end(); }
    /// The first one that is noted, and no more then.
    evaluation take_noted() {
        auto const first = noted_.front();
        noted_.erase(noted_.begin());
        return first;
    }

private:
    std::vector<std::unique_ptr<task_log>> logs_; ///< by local rank
    std::vector<evaluation> noted_;
    std::uint64_t origin_ = ~std::uint64_t{0};
    bool has_origin_ = false;
};

} // namespace trireme::detail
