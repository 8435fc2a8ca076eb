// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/csv.hpp>
#include <trireme/schedule/pipeline/orders.hpp>
#include <trireme/schedule/pipeline/program.hpp>

#include <string>
#include <string_view>
#include <vector>

// Step programs of schedules, together with the room that their tasks need.
namespace test_support {

/// A step program keeps its tasks beside it.
struct built_step {
    std::vector<trireme::step_task> room;
    trireme::step_program program;

    built_step(trireme::schedule_choice const& s, trireme::step_shape const& shape)
        : room(step_capacity(s, shape)), program(build_step(s, shape, room)) {}
    explicit built_step(trireme::schedule_orders const& s) : built_step(s, s.shape()) {}
    built_step(built_step const&) = delete;
    built_step& operator=(built_step const&) = delete;
};

/// An evaluation goes with a step, which may end before it.
struct built_evaluation {
    std::vector<trireme::step_task> room;
    trireme::step_program program;

    built_evaluation(trireme::schedule_choice const& s, trireme::step_program const& step)
        : room(step_capacity(s, {step.shape.roles, 2})), program(build_evaluation(s, step, room)) {}
    built_evaluation(built_evaluation const&) = delete;
    built_evaluation& operator=(built_evaluation const&) = delete;
};

/// The orders of a schedule are those of a file that its step is written to; the file has a name.
inline trireme::schedule_orders orders_of(trireme::schedule_choice const& s, int roles, int micro_batches,
                                          trireme::schedule_cells cells = trireme::schedule_cells::compute,
                                          std::string_view name = {}) {
    built_step const step(s, {roles, micro_batches});
    return trireme::parse_schedule_csv(schedule_csv(step.program, cells), std::string(name.empty() ? s.name : name));
}

} // namespace test_support
