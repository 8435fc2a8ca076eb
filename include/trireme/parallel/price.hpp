// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/schedule/machine.hpp>
#include <trireme/schedule/pipeline/span.hpp>

#include <algorithm>
#include <cstddef>

namespace trireme {

/// The time of a step on a described machine, in seconds.
struct priced_step {
    double seconds = 0;   ///< seconds until the last device has all gradients
    double computing = 0; ///< seconds of the device that computes longest
    double adding = 0;    ///< seconds of adding gradients over the replicas, of the device that adds longest
    /// The rest: waiting for other stages, and for what comes from them.
    constexpr double waiting() const noexcept { return std::max(0.0, seconds - computing - adding); }
};

/// The time of a planned step on a full batch: a device does `flops_per_second`, what goes between two devices takes
/// what their link costs, beside what both compute, and gradients are added by the layout's strategies when all are
/// there. Rank r of the layout is rank r of the machine. Not in it: updates, the loss, the rounding of compressed
/// gradients, and all that the machine's description leaves out (links that several pairs share, or several transfers
/// at once; caches).
///
///     constexpr auto p = seconds_of(my_trainer::plan(batch{256}), fat_tree, 50e9);
///
/// Cost: that of playing the program of a replica, and of pricing a collective per stage.
constexpr priced_step seconds_of(training_plan const& plan, machine const& m, double flops_per_second) {
    auto const& l = plan.layout;
    auto const samples = static_cast<double>(l.most_shard_samples(plan.batch.samples));
    auto const stages = static_cast<std::size_t>(l.stage_count());
    detail::scratch<stage_times> times(stages);
    detail::scratch<crossing_bytes> crossing(stages);
    for (int stage = 0; stage < l.stage_count(); ++stage) {
        auto const s = static_cast<std::size_t>(stage);
        times[s] = plan.times(stage, samples / flops_per_second);
        if (s + 1 < stages) crossing[s] = plan.crossing(l, plan.batch.samples, stage);
    }
    auto const roles = static_cast<std::size_t>(l.stages);
    detail::scratch<double> busy(roles), end(roles);
    auto const between = [&](int from, int to, bytes_t bytes, double messages) {
        double longest = 0;
        for (int first = 0; first < l.devices(); first += l.stages) { // the slowest replica
            auto const& link = m.link(first + from, first + to);
            longest =
                std::max(longest, messages * (link.alpha + link.overhead) + link.beta * static_cast<double>(bytes));
        }
        return longest;
    };
    auto const transfer = [&](stage_transfer const& t, int to) {
        auto const& bytes = crossing[t.boundary];
        return between(t.role, to, t.gradient ? bytes.gradients : bytes.values, 1);
    };
    with_step(l, 0, [&](step_program const& program) { // no replica has more micro-batches
        return play_step(
            program, [&](task_kind kind, int stage) { return times[static_cast<std::size_t>(stage)].of(kind); },
            [&](int role, std::size_t, double from, double to) {
                auto const r = static_cast<std::size_t>(role);
                busy[r] += to - from;
                end[r] = std::max(end[r], to);
            },
            transfer);
    });

    priced_step priced;
    double tying = 0; // the longest that a role exchanges what belongs to tied rows
    for (std::size_t r = 0; r < roles; ++r) {
        int const role = static_cast<int>(r);
        double adding = 0, exchanging = 0;
        for (int chunk = 0; chunk < l.chunks() && l.replicas > 1; ++chunk) {
            auto const extent = plan.numbers(l, l.stage_of(role, chunk));
            for (std::size_t i = 0; i < l.reductions(); ++i) {
                auto const s = l.reduction(i, extent, plan.element_bytes);
                adding += seconds_of(s, l.cut_of(i, s, extent, plan.element_bytes), m,
                                     [&](int replica) { return replica * l.stages + role; });
            }
        }
        for (int other = 0; other < l.stages && l.ties; ++other) {
            auto const t = plan.tied(l, role, other);
            exchanging += t.messages == 0 ? 0 : between(other, role, t.bytes, static_cast<double>(t.messages));
        }
        priced.computing = std::max(priced.computing, busy[r]);
        priced.adding = std::max(priced.adding, adding);
        priced.seconds = std::max(priced.seconds, end[r] + adding);
        tying = std::max(tying, exchanging);
    }
    priced.seconds += tying; // roles meet for it when all have added their gradients
    return priced;
}

} // namespace trireme
