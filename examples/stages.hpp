// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/step.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Examples that train in stages share what they say of them before a run.

/// Says of a schedule that makes no training step of a replica's micro-batches which flags would do: dual_pipe_v takes
/// two per stage at least. Throws usage_error; returns if others would not do, either.
inline void refuse_few_micro_batches(trireme::parallel_layout const& l, std::string const& name) {
    using namespace trireme;
    if (l.stages == 1) return;
    auto const works = [&](std::size_t micro_batches) {
        step_shape const shape{l.stages, static_cast<int>(micro_batches)};
        std::vector<step_task> room(step_capacity(l.schedule, shape));
        return verify(build_step(l.schedule, shape, room)).ok();
    };
    if (l.schedule.micro_batches != 0) return; // a file's, for so many
    for (int replica = 0; replica < l.replicas; ++replica) {
        auto const has = l.shards_of_device(replica * l.stages).size();
        if (works(has)) continue;
        auto least = has + 1;
        auto const most = has + 8 * static_cast<std::size_t>(l.stages);
        while (least < most && !works(least)) ++least;
        if (least == most) return;
        auto const number = [](auto n) { return std::to_string(n); };
        throw usage_error("--schedule " + name + " with --stages " + number(l.stages) + ": " + number(has) +
                          (has == 1 ? " micro-batch" : " micro-batches") +
                          " of each replica are too few; it takes at least " + number(least) + ", with " +
                          (l.reproducible() ? "--reproducible " + number(least * static_cast<std::size_t>(l.replicas))
                                            : "--micro-batches " + number(least)));
    }
}

/// Checks the options of a trainer that may have stages. `name`: the schedule's, as it is on the command line.
template<class Trainer>
void check_options(typename Trainer::options const& training, typename Trainer::run_options const& where,
                   std::string const& name) {
    try {
        Trainer::check(training, where);
    } catch (trireme::usage_error const& e) {
        bool const of_step = std::string_view(e.what()).find(": its step ") != std::string_view::npos;
        if (of_step) refuse_few_micro_batches(Trainer::layout_of(training, where), name);
        throw;
    }
}

/// "2 stages, layers 0 to 4, 5 to 11", or, of a schedule that has several on each device, "2 devices of 2 stages,
/// layers 0 to 1 and 9 to 11, 2 to 4 and 5 to 8".
inline std::string stages_text(trireme::parallel_layout const& l) {
    auto text = std::to_string(l.stages) +
                (l.chunks() == 1 ? " stages" : " devices of " + std::to_string(l.chunks()) + " stages") + ", layers";
    for (int device = 0; device < l.stages; ++device)
        for (int chunk = 0; chunk < l.chunks(); ++chunk) {
            auto const rows = l.cut(l.stage_count(), l.stage_of(device, chunk));
            text += chunk > 0 ? " and " : device > 0 ? ", " : " ";
            text += std::to_string(rows.begin);
            if (rows.size() > 1) text += " to " + std::to_string(rows.end - 1);
        }
    return text;
}
