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
    for (int replica = 0; replica < l.replicas; ++replica) {
        auto const has = l.shards_of_device(replica * l.stages).size();
        auto const least = least_micro_batches(l, has);
        if (least == 0 || least_micro_batches(l, has - 1) == has) continue; // it makes none at all, or one of these
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
        bool const too_few = std::string_view(e.what()).find(" takes at least ") != std::string_view::npos;
        if (too_few) refuse_few_micro_batches(Trainer::layout_of(training, where), name);
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
