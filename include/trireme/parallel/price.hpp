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

namespace detail {

/// Seconds that the replicas of a role take to read the blocks of a fixed tree beyond the first of each peer, and to
/// add them.
constexpr double seconds_of_blocks(parallel_layout const& l, int role, arena_extent const& extent,
                                   std::size_t element_bytes, machine const& m) {
    double longest = 0;
    for (int rank = role; rank < l.devices() && l.reproducible(); rank += l.stages) {
        double own = 0;
        l.for_blocks(rank, extent, element_bytes, [&](int replica, bytes_t bytes) {
            auto const& link = m.link(rank, replica * l.stages + role);
            own += (link.beta + link.gamma) * static_cast<double>(bytes);
        });
        longest = std::max(longest, own);
    }
    return longest;
}

} // namespace detail

/// The time of a step on a described machine, in seconds.
struct priced_step {
    double seconds = 0;   ///< seconds until the last device has all gradients
    double computing = 0; ///< seconds of the device that computes longest
    double adding = 0;    ///< seconds of adding gradients over the replicas, of the device that adds longest
    /// The rest: waiting for other stages, and for what comes from them, or from the layers of other replicas.
    constexpr double waiting() const noexcept { return std::max(0.0, seconds - computing - adding); }
};

/// The time of a planned step on a full batch: a device does `flops_per_second`, what goes between two stages takes
/// what their link costs, beside what both compute, sums of layers over the replicas interrupt it, and gradients are
/// added by the layout's strategies when all are there. Rank r of the layout is rank r of the machine; a step is that
/// of the replica with the most micro-batches. Of a model it is a prediction. Not in it: updates, the loss, the
/// rounding of compressed gradients, meetings of stages where each sends the others some numbers (the squares of
/// clip_norm, whether losses are finite), and all that the machine's description leaves out (links that several pairs
/// share, or several transfers at once; caches).
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
    plan.play([&](task_kind kind, int stage) { return times[static_cast<std::size_t>(stage)].of(kind); },
              [&](int role, double from, double to) {
                  auto const r = static_cast<std::size_t>(role);
                  busy[r] += to - from;
                  end[r] = std::max(end[r], to);
              },
              [&](int boundary, bool gradient, int from, int to) {
                  auto const& bytes = crossing[static_cast<std::size_t>(boundary)];
                  return between(from, to, gradient ? bytes.gradients : bytes.values, 1);
              });
    bool const adds = plan.trains && l.replicas > 1;

    priced_step priced;
    double meeting = 0; // the longest that a role exchanges what belongs to tied rows, and sums of layers
    for (std::size_t r = 0; r < roles; ++r) {
        int const role = static_cast<int>(r);
        double adding = 0, exchanging = 0;
        auto const place = [&](int replica) { return replica * l.stages + role; };
        for (int chunk = 0; chunk < l.chunks() && adds; ++chunk) {
            auto const extent = plan.numbers(l, l.stage_of(role, chunk));
            for (std::size_t i = 0; i < l.reductions(); ++i) {
                auto const s = l.reduction(i, extent, plan.element_bytes);
                adding += seconds_of(s, l.cut_of(i, s, extent, plan.element_bytes), m, place);
            }
            adding += detail::seconds_of_blocks(l, role, extent, plan.element_bytes, m);
        }
        for (std::size_t i = 0; adds && plan.exchanged(i) != 0; ++i) {
            auto const s = direct::all_reduce(l.replicas);
            exchanging += seconds_of(s, {plan.exchanged(i), plan.element_bytes, s.chunks}, m, place);
        }
        for (int other = 0; other < l.stages && l.ties; ++other) {
            auto const t = plan.tied(l, role, other);
            exchanging += t.messages == 0 ? 0 : between(other, role, t.bytes, static_cast<double>(t.messages));
        }
        priced.computing = std::max(priced.computing, busy[r]);
        priced.adding = std::max(priced.adding, adding);
        priced.seconds = std::max(priced.seconds, end[r] + adding);
        meeting = std::max(meeting, exchanging);
    }
    priced.seconds += meeting; // roles meet when all have added their gradients; layers do before, alone
    return priced;
}

} // namespace trireme
