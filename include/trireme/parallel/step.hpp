// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/schedule/pipeline/program.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>
#include <trireme/schedule/pipeline/verify.hpp>

#include <string>
#include <vector>

namespace trireme {

/// The shape of a rank's step: its logical shards are its micro-batches.
constexpr step_shape shape_of_rank(data_parallel_layout const& l, int rank) noexcept {
    return {1, static_cast<int>(l.shards_of_device(rank).size()), l.devices, static_cast<int>(l.reductions()),
            l.shared_weights};
}

/// The step program of one rank, proved, and the memory of its tasks.
class rank_program {
public:
    /// Throws usage_error if that is no training step.
    rank_program(data_parallel_layout const& l, int rank)
        : room_(step_capacity(schedule_choice{}, shape_of_rank(l, rank))),
          program_(build_step(schedule_choice{}, shape_of_rank(l, rank), room_)) {
        auto const v = verify(program_);
        if (!v.ok())
            throw usage_error("the step of rank " + std::to_string(rank) + " " + describe(v.fault) + ", task " +
                              std::to_string(v.task));
    }
    rank_program(rank_program const&) = delete;
    rank_program& operator=(rank_program const&) = delete;

    step_program const& get() const noexcept { return program_; }

private:
    std::vector<step_task> room_;
    step_program program_;
};

} // namespace trireme
