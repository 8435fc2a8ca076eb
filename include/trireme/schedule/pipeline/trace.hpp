// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/print.hpp>
#include <trireme/schedule/pipeline/program.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace trireme {

/// A task that a rank has done, or an exchange inside it, and when, in seconds.
struct timed_task {
    int rank = 0;                        ///< rank that did it
    std::uint64_t step = 0;              ///< number of the step, counted from 1; 0: of an evaluation
    task_kind kind = task_kind::forward; ///< the task
    int stage = 0;                       ///< stage of the network
    int micro_batch = 0;                 ///< number of the micro-batch; of a collective or an update: its first slice
    double begin = 0;                    ///< seconds, from a moment that all tasks have in common
    double end = 0;                      ///< seconds, likewise
    int queue = 0;                       ///< stream of the rank: 0 computes, 1 stands beside it
    int exchange = -1; ///< number of an exchange inside the task, among those of the network; -1: the task itself
};

/// The lanes of tasks: ranks, and where there are tasks beside what computes, their queues, in the order of ranks.
class task_lanes {
public:
    explicit task_lanes(std::span<timed_task const> tasks) {
        for (auto const& t : tasks) {
            auto const n = static_cast<std::size_t>(t.rank);
            if (queues_.size() <= n) queues_.resize(n + 1, 1);
            queues_[n] = std::max(queues_[n], t.queue + 1);
        }
    }
    int ranks() const noexcept { return static_cast<int>(queues_.size()); }
    int queues(int rank) const noexcept { return queues_[static_cast<std::size_t>(rank)]; }
    int of(int rank, int queue) const noexcept {
        int lane = queue;
        for (int r = 0; r < rank; ++r) lane += queues(r);
        return lane;
    }
    int count() const noexcept { return of(ranks(), 0); }
    static std::string name(int rank, int queue) {
        return "rank " + std::to_string(rank) + (queue == 0 ? "" : ", moves");
    }
    /// f(rank, queue) for all lanes.
    template<class F>
    void for_each(F&& f) const {
        for (int r = 0; r < ranks(); ++r)
            for (int q = 0; q < queues(r); ++q) f(r, q);
    }

private:
    std::vector<int> queues_; ///< by rank
};

/// The number that a task is told by: that of its micro-batch, or of its first slice.
constexpr int counted_by(step_task const& t) noexcept {
    return is_of_slices(t.kind) ? t.first : t.kind == task_kind::move ? t.moves[0].micro_batch : t.micro_batch;
}

/// The last tasks of a rank, which writes them down. Others may read when the rank has stopped, or hangs: what was
/// complete then.
class task_log {
public:
    static constexpr std::size_t most = std::size_t{1} << 16;

    task_log() : tasks_(most) {}

    void add(timed_task const& t) noexcept {
        auto const n = count_.load(std::memory_order_relaxed);
        tasks_[n % most] = t;
        count_.store(n + 1, std::memory_order_release);
    }
    /// In the order in which they were done.
    std::vector<timed_task> read() const {
        auto const end = count_.load(std::memory_order_acquire);
        auto const begin = end < most ? 0 : end - most + 1; // the oldest may just be written over
        std::vector<timed_task> all;
        for (auto i = begin; i < end; ++i) all.push_back(tasks_[i % most]);
        return all;
    }

private:
    std::vector<timed_task> tasks_;
    std::atomic<std::size_t> count_{0};
};

/// Tasks in the format of Chrome's and Perfetto's traces: open the file in ui.perfetto.dev. A lane per rank and queue.
inline std::string trace_json(std::span<timed_task const> tasks) {
    std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
    task_lanes const lanes(tasks);
    bool first = true;
    auto const add = [&](char const* line) {
        text += first ? "" : ",\n";
        text += line;
        first = false;
    };
    char line[320];
    lanes.for_each([&](int rank, int queue) {
        std::snprintf(line, sizeof line,
                      R"({"name": "thread_name", "ph": "M", "pid": 0, "tid": %d, "args": {"name": "%s"}})",
                      lanes.of(rank, queue), task_lanes::name(rank, queue).c_str());
        add(line);
    });
    for (auto const& t : tasks) {
        bool const slices = is_of_slices(t.kind), exchanges = t.exchange >= 0;
        std::snprintf(line, sizeof line,
                      R"({"name": "%s", "ph": "X", "pid": 0, "tid": %d, "ts": %.3f, "dur": %.3f, )"
                      R"("args": {"step": %llu, "stage": %d, "%s": %d%s}})",
                      exchanges ? "exchange" : name_of(t.kind), lanes.of(t.rank, t.queue), 1e6 * t.begin,
                      1e6 * (t.end - t.begin), static_cast<unsigned long long>(t.step), t.stage,
                      slices ? "slice" : "micro_batch", t.micro_batch,
                      exchanges ? (", \"exchange\": " + std::to_string(t.exchange)).c_str() : "");
        add(line);
    }
    return text + "\n]}\n";
}

} // namespace trireme
