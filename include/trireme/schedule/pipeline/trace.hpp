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

/// A task that a rank has done, and when, in seconds.
struct timed_task {
    int rank = 0;
    std::uint64_t step = 0; ///< counted from 1; 0: of an evaluation
    task_kind kind = task_kind::forward;
    int stage = 0;
    int micro_batch = 0; ///< of a collective or an update: its first slice
    double begin = 0;
    double end = 0;
};

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

/// Tasks in the format of Chrome's and Perfetto's traces: open the file in ui.perfetto.dev. A lane per rank.
inline std::string trace_json(std::span<timed_task const> tasks) {
    std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
    int ranks = 0;
    for (auto const& t : tasks) ranks = std::max(ranks, t.rank + 1);
    bool first = true;
    auto const add = [&](char const* line) {
        text += first ? "" : ",\n";
        text += line;
        first = false;
    };
    char line[320];
    for (int r = 0; r < ranks; ++r) {
        std::snprintf(line, sizeof line,
                      R"({"name": "thread_name", "ph": "M", "pid": 0, "tid": %d, "args": {"name": "rank %d"}})", r, r);
        add(line);
    }
    for (auto const& t : tasks) {
        bool const slices = t.kind == task_kind::collective || t.kind == task_kind::update;
        std::snprintf(line, sizeof line,
                      R"({"name": "%s", "ph": "X", "pid": 0, "tid": %d, "ts": %.3f, "dur": %.3f, )"
                      R"("args": {"step": %llu, "stage": %d, "%s": %d}})",
                      name_of(t.kind), t.rank, 1e6 * t.begin, 1e6 * (t.end - t.begin),
                      static_cast<unsigned long long>(t.step), t.stage, slices ? "slice" : "micro_batch",
                      t.micro_batch);
        add(line);
    }
    return text + "\n]}\n";
}

} // namespace trireme
