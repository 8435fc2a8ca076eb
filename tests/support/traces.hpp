// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/parallel/step.hpp>
#include <trireme/schedule/pipeline/trace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace test_traces {

/// Name of a line of a trace or of a program: a task's kind, or "exchange 3 of train".
inline std::string line_name(trireme::task_kind kind, int exchange) {
    auto const task = std::string(trireme::name_of(kind));
    return exchange < 0 ? task : "exchange " + std::to_string(exchange) + " of " + task;
}

/// Checks that a trace is the expanded view of the program, line by line: of each rank of this process it has `steps`
/// steps, and between them any number of whole passes through the program of evaluations, each task with its kind,
/// stage and micro-batch or first slice, on each queue in the order of time, and before it each exchange inside it,
/// within its time. Throws runtime_error at the first line that is another: ranks that are processes have no test
/// around them. Returns the passes through evaluations of the rank that has fewest.
template<class Trainer>
std::size_t trace_is_program(Trainer const& t, int ranks, std::uint64_t steps) {
    using namespace trireme;
    auto const all = t.traced();
    auto const& layout = t.plan().layout;
    std::size_t next = 0, fewest = std::numeric_limits<std::size_t>::max();
    for (int rank = t.rank(); rank < t.rank() + ranks; ++rank) {
        rank_programs const programs(layout, rank);
        int const role = layout.role_of(rank);
        double before[2] = {-1, -1}; // clocks that begin with a first task may have had an earlier one elsewhere
        std::uint64_t step = 0;
        std::size_t evaluations = 0;
        while (next < all.size() && all[next].rank == rank) {
            bool const evaluates = all[next].step == 0;
            auto const& program = evaluates ? programs.evaluation() : t.program(rank);
            auto const number = evaluates ? 0 : ++step;
            evaluations += evaluates ? 1 : 0;
            double began = 0, ended = 0; // of the exchanges of the task to come
            bool exchanged = false;
            for_each_expanded_task(
                layout, Trainer::network_type::rows, program, role, [&](step_task const& planned, int exchange) {
                    auto const where = "task " + std::to_string(next) + " of the trace, rank " + std::to_string(rank) +
                                       ", step " + std::to_string(number) + ": ";
                    auto const require = [&](bool holds, std::string const& what) {
                        if (!holds) throw std::runtime_error(where + what);
                    };
                    require(next < all.size(), "the trace ends before the program does");
                    auto const& done = all[next++];
                    require(done.rank == rank && done.step == number,
                            "of rank " + std::to_string(done.rank) + ", step " + std::to_string(done.step));
                    require(done.kind == planned.kind && done.exchange == exchange,
                            line_name(done.kind, done.exchange) + " is in the trace, and " +
                                line_name(planned.kind, exchange) + " in the program");
                    require(done.stage == program.stage(role, planned.chunk), "another stage");
                    require(done.micro_batch == counted_by(planned), "another micro-batch or slice");
                    auto& last = before[done.queue];
                    require(last <= done.begin && done.begin <= done.end, "not in the order of time");
                    if (exchange >= 0) {
                        require(done.queue == 0 && (!exchanged || ended <= done.begin), "not in the order of time");
                        if (!exchanged) began = done.begin;
                        ended = done.end;
                    } else {
                        require(!exchanged || (done.begin <= began && ended <= done.end),
                                "an exchange is outside of it");
                        last = done.end;
                    }
                    exchanged = exchange >= 0;
                });
        }
        if (step != steps)
            throw std::runtime_error("rank " + std::to_string(rank) + " has " + std::to_string(step) +
                                     " steps in the trace, and did " + std::to_string(steps));
        fewest = std::min(fewest, evaluations);
    }
    if (next != all.size()) throw std::runtime_error("the trace has tasks of other ranks");
    return fewest;
}

} // namespace test_traces
