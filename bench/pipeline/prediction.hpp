// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/program.hpp>
#include <trireme/schedule/pipeline/span.hpp>
#include <trireme/schedule/pipeline/trace.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

namespace bench {

inline double median(std::vector<double> values) {
    if (values.empty()) return 0;
    auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// The prediction of a pipeline's step is the span of its program, played with the times that its own tasks took. What
/// the step takes beyond that is what stages wait for one another without need: moves, signals, uneven tasks.
///
/// A task's time is that of its arithmetic. A trace has, within a task, also the wait for the place that it writes to;
/// that wait belongs to the schedule, and is taken off.
class prediction {
public:
    explicit prediction(trireme::step_program const& p)
        : program_(p), times_(static_cast<std::size_t>(p.stage_count()) * kinds),
          tails_(static_cast<std::size_t>(p.shape.roles)) {}

    /// Adds a traced step of one replica, whose roles are ranks. Throws std::runtime_error if the tasks are not the
    /// program's.
    void add(std::span<trireme::timed_task const> tasks) {
        std::vector<std::vector<trireme::timed_task>> done(tails_.size());
        for (auto const& t : tasks) done.at(static_cast<std::size_t>(t.rank)).push_back(t);
        std::vector<std::vector<double>> own(static_cast<std::size_t>(program_.stage_count()));
        std::vector<double> tails(done.size());
        for (std::size_t r = 0; r < done.size(); ++r) {
            auto const list = program_.list(static_cast<int>(r));
            if (done[r].size() != list.size()) throw std::runtime_error("a step has other tasks than its program");
            for (std::size_t i = 0; i < list.size(); ++i) {
                if (done[r][i].kind != list[i].kind) throw std::runtime_error("a step has another order of tasks");
                auto const seconds = done[r][i].end - std::max(done[r][i].begin, free_since(done, r, i));
                if (i >= program_.tail[r]) {
                    tails[r] += seconds;
                } else if (list[i].computes()) {
                    auto const stage = static_cast<std::size_t>(program_.stage(static_cast<int>(r), list[i].chunk));
                    times_[place(list[i].kind, stage)].push_back(seconds);
                    own[stage].push_back(seconds);
                }
            }
            tails_[r].push_back(tails[r]);
        }
        std::vector<std::size_t> next(own.size());
        replays_.push_back(span(
            [&](trireme::task_kind, int stage) {
                auto const s = static_cast<std::size_t>(stage);
                return own[s][next[s]++]; // a stage's tasks are played in their order
            },
            tails));
    }

    /// The seconds of a step if each task takes the median of its kind in its stage, and moves take none.
    double predicted() const {
        std::vector<double> tails;
        for (auto const& t : tails_) tails.push_back(median(t));
        return span([&](trireme::task_kind kind, int stage) { return time_of(kind, stage); }, tails);
    }
    /// The median seconds of the steps if each of their tasks takes as long as it did, and moves take none: what
    /// `predicted` lacks to it is due to tasks of one kind that do not all take equally long.
    double replayed() const { return median(replays_); }

    /// The median seconds of a kind of task in a stage; 0 if there was none.
    double time_of(trireme::task_kind kind, int stage) const {
        return median(times_[place(kind, static_cast<std::size_t>(stage))]);
    }
    /// The shortest of them.
    double shortest_task() const {
        double least = std::numeric_limits<double>::infinity();
        for (auto const& t : times_)
            if (!t.empty()) least = std::min(least, median(t));
        return least;
    }

private:
    static constexpr std::size_t kinds = static_cast<std::size_t>(trireme::task_kind::update) + 1;
    static constexpr std::size_t place(trireme::task_kind kind, std::size_t stage) noexcept {
        return stage * kinds + static_cast<std::size_t>(kind);
    }

    /// The time since when the place that a task writes to was free: the end of the move that took the last message
    /// from it, in this step.
    double free_since(std::vector<std::vector<trireme::timed_task>> const& done, std::size_t role,
                      std::size_t task) const {
        auto const list = program_.list(static_cast<int>(role));
        auto const& t = list[task];
        if (!t.computes()) return 0;
        auto const stage = program_.stage(static_cast<int>(role), t.chunk);
        bool const fills = stage == 0 && trireme::goes_forward(t.kind), gives = stage > 0 && gives_input(t.kind);
        if (!fills && !gives) return 0;
        for (auto i = task; i-- > 0;)
            for (int k = 0; k < list[i].transfers; ++k) {
                auto const& m = list[i].moves[k];
                if (m.sends && m.gradient == gives && m.place == (gives ? t.slot : t.frame)) return taken(done, m);
            }
        return 0;
    }
    double taken(std::vector<std::vector<trireme::timed_task>> const& done, trireme::stage_transfer const& sent) const {
        auto const list = program_.list(sent.role);
        for (std::size_t i = 0; i < list.size(); ++i)
            for (int k = 0; k < list[i].transfers; ++k)
                if (auto const& m = list[i].moves[k]; !m.sends && m.carries_as(sent)) return done[sent.role][i].end;
        return 0;
    }

    template<class Times>
    double span(Times const& times, std::vector<double> const& tails) const {
        std::vector<double> ends(tails.size());
        trireme::play_step(program_, times, [&](int role, std::size_t, double, double end) {
            auto& last = ends[static_cast<std::size_t>(role)];
            last = std::max(last, end);
        });
        double all = 0;
        for (std::size_t r = 0; r < ends.size(); ++r) all = std::max(all, ends[r] + tails[r]);
        return all;
    }

    trireme::step_program const& program_;
    std::vector<std::vector<double>> times_; ///< seconds, by stage and kind
    std::vector<std::vector<double>> tails_; ///< by role: the updates behind the gradients
    std::vector<double> replays_;
};

} // namespace bench
