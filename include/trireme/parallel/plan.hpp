// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/units.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/parallel/traffic_by_peer.hpp>
#include <trireme/schedule/pipeline/span.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <type_traits>

namespace trireme {

/// Bytes between two stages: values one way, their gradients the other way.
struct crossing_bytes {
    bytes_t values = 0;    ///< bytes of values, to the next stage
    bytes_t gradients = 0; ///< bytes of gradients, back
};

/// A plan is the cost of a program before it runs: memory, traffic, operations. A constant expression if the type fixes
/// the layout.
///
/// On accelerators the bytes are those of the device, each rank having a device of its own.
/// Not counted: the data set, its order (4 bytes per sample), thread stacks, and what libraries take for themselves
/// (the portable kernels take nothing).
struct training_plan {
    /// Of a bubble: as if all stages took equally long, as papers have it.
    enum equal_stages_t { equal_stages };

    // of the network, optimizer and kernels
    std::size_t parameters = 0;     ///< trainable numbers
    std::size_t buffers = 0;        ///< running statistics
    std::size_t arena_elements = 0; ///< both, each padded to whole cache lines
    std::size_t element_bytes = 0;  ///< bytes of a number: parameters, gradients and optimizer state
    bool trains = true;             ///< false: a model's, without gradients, whose step is a prediction
    flops_t training_flops = 0;     ///< FLOPs per sample, forward and backward and loss; of a model, forward
    flops_t forward_flops = 0;      ///< FLOPs per sample, forward
    /// FLOPs of a sample in a stage, but for the loss.
    pass_flops (*flops_of)(parallel_layout const&, int stage) = nullptr;
    /// Numbers of a stage: parameters and buffers.
    arena_extent (*numbers)(parallel_layout const&, int stage) = nullptr;
    /// Numbers of the i-th sum of layers over the replicas in the middle of a step; 0 where there are no more.
    std::size_t (*exchanged)(std::size_t i) = nullptr;
    /// Bytes that cross a stage's end with a micro-batch of the most samples.
    crossing_bytes (*crossing)(parallel_layout const&, std::size_t batch, int stage) = nullptr;
    /// The map of a rank's memory.
    memory_map (*map)(parallel_layout const&, std::size_t batch, int rank) = nullptr;
    /// The function adds the traffic that a rank reads from the others in a step on a full batch.
    void (*moves)(parallel_layout const&, std::size_t batch, int rank, detail::traffic_by_peer&) = nullptr;
    /// Traffic of a rank that takes from another role what belongs to tied rows.
    traffic (*tied)(parallel_layout const&, int rank, int role) = nullptr;

    // of the run
    trireme::batch batch = {};   ///< samples of a step
    parallel_layout layout = {}; ///< devices, and how a step is spread over them

    constexpr int devices() const noexcept { return layout.devices(); }

    /// Owned memory of device `rank`.
    constexpr owned_bytes memory(int rank) const { return map(layout, batch.samples, rank).owned(); }

    /// Owned memory of the device that needs most: devices with fewer logical shards need less for gradients.
    constexpr owned_bytes memory() const {
        auto most = memory(0);
        for (int r = 1; r < devices(); ++r)
            if (memory(r).total() > most.total()) most = memory(r);
        return most;
    }
    constexpr bytes_t bytes_per_device() const { return memory().total(); }

    /// Micro-batches whose activations device `rank` keeps at once, at most, those of each of its stages for itself:
    /// the frames of its program. 1 without a pipeline.
    constexpr std::size_t in_flight(int rank) const {
        return layout.stages == 1 ? 1 : frames_of_rank(layout, rank).frames;
    }

    /// Traffic that device `rank` reads from the others in one step, and writes to them itself.
    constexpr traffic wire(int rank) const {
        detail::traffic_by_peer sum(layout, rank, false);
        moves(layout, batch.samples, rank, sum);
        return sum.total();
    }
    /// Traffic that device `rank` has with device `peer`; over all peers it adds up to wire(rank). What goes over
    /// the link between two devices is wire(a, b) and wire(b, a). Where a transport adds gradients by a strategy of its
    /// own, of which nobody knows the steps: as the schedule does that stands for it. Throws usage_error for other
    /// devices than there are.
    constexpr traffic wire(int rank, int peer) const {
        if (rank < 0 || rank >= devices() || peer < 0 || peer >= devices())
            throw usage_error("a plan has traffic between its devices, which are counted from 0: ask for two of them");
        detail::traffic_by_peer sum(layout, rank, true);
        moves(layout, batch.samples, rank, sum);
        return sum.with(peer);
    }
    /// Traffic of all devices in one step along an axis of the mesh. "dp": between replicas, that is adding gradients,
    /// and sums of layers; "pp": between stages, that is values and gradients, norms and whether losses are finite.
    /// Both together have wire_bytes_per_step() bytes. Throws usage_error for another axis.
    constexpr traffic wire_along(std::string_view axis) const {
        int const along = layout.mesh().find(axis);
        if (along < 0) throw usage_error("a plan has traffic along the axes of its mesh: ask for dp or pp");
        traffic sum;
        for (int r = 0; r < devices(); ++r) {
            detail::traffic_by_peer of_rank(layout, r, true);
            moves(layout, batch.samples, r, of_rank);
            sum += of_rank.along(along);
        }
        return sum;
    }

    /// FLOPs of one sample in a stage of the network, but for the loss.
    constexpr pass_flops flops(int stage) const { return flops_of(layout, stage); }
    /// The times of a sample in a stage, if a FLOP takes so many seconds.
    constexpr stage_times times(int stage, double seconds) const {
        auto const f = flops(stage);
        auto const of = [&](flops_t n) { return static_cast<double>(n) * seconds; };
        return {of(f.forward), of(f.backward_input + f.again), of(f.backward_weights)};
    }
    /// The FLOPs of the device with most of them, by those that each would have if all had equally many.
    constexpr double imbalance() const {
        flops_t most = 0, all = 0;
        for (int role = 0; role < layout.stages; ++role) {
            flops_t own = 0;
            for (int chunk = 0; chunk < layout.chunks(); ++chunk) own += flops(layout.stage_of(role, chunk)).total();
            most = std::max(most, own);
            all += own;
        }
        return static_cast<double>(most) * layout.stages / static_cast<double>(all);
    }

    /// Plays the step of the replica with the most micro-batches, as play_step does: `times(kind, stage)` is how long a
    /// task takes, `done(role, begin, end)` is told of each, and `transfer(boundary, gradient, from, to)` is how long
    /// the values, or the gradients, of a micro-batch are on their way from role to role. A prediction takes
    /// micro-batch after micro-batch through all stages. Returns when the last task ends.
    template<class Times, class Done, class Transfer>
    constexpr double play(Times const& times, Done const& done, Transfer const& transfer) const {
        int const first = layout.rank_with_most_shards();
        if (trains)
            return with_step(layout, first, [&](step_program const& p) {
                return play_step(
                    p, times, [&](int role, std::size_t, double begin, double end) { done(role, begin, end); },
                    [&](stage_transfer const& t, int to) { return transfer(t.boundary, t.gradient, t.role, to); });
            });
        detail::scratch<double> now(static_cast<std::size_t>(layout.stages), 0.0);
        double last = 0;
        for (auto left = layout.shards_of_device(first).size(); left != 0; --left) {
            double there = 0; // when what the stage reads is there
            for (int stage = 0, before = -1; stage < layout.stage_count(); ++stage) {
                int const role = layout.place_of(stage).role;
                if (before >= 0 && before != role) there += transfer(stage - 1, false, before, role);
                auto& at = now[static_cast<std::size_t>(role)];
                auto const begin = std::max(at, there);
                there = at = begin + times(task_kind::evaluate, stage);
                done(role, begin, at);
                last = std::max(last, at);
                before = role;
            }
        }
        return last;
    }

    /// The part of a step in which the devices of a pipeline wait for one another, on average, if a task takes
    /// `times(kind, stage)`, and moves no time: in the replica with the most micro-batches, where replicas have not as
    /// many. 0 without a pipeline.
    template<class Times>
        requires std::is_invocable_r_v<double, Times const&, task_kind, int>
    constexpr double bubble(Times const& times) const {
        if (layout.stages == 1) return 0;
        double busy = 0;
        auto const add = [&](int, double begin, double end) { busy += end - begin; };
        auto const span = play(times, add, [](int, bool, int, int) { return 0.0; });
        return 1 - busy / (span * layout.stages);
    }
    /// Likewise, for tasks that take as long as their FLOPs say.
    constexpr double bubble() const {
        detail::scratch<stage_times> of(static_cast<std::size_t>(layout.stage_count()));
        for (int stage = 0; stage < layout.stage_count(); ++stage)
            of[static_cast<std::size_t>(stage)] = times(stage, 1);
        return bubble([&](task_kind kind, int stage) { return of[static_cast<std::size_t>(stage)].of(kind); });
    }
    /// Likewise, for stages that take equally long, whose forward and halves of backward do, too.
    constexpr double bubble(equal_stages_t) const {
        return bubble([](task_kind kind, int) { return stage_times{}.of(kind); });
    }

    /// Bytes between devices in one step, over all of them.
    constexpr bytes_t wire_bytes_per_step() const {
        bytes_t sum = 0;
        for (int r = 0; r < devices(); ++r) sum += wire(r).bytes;
        return sum;
    }

    /// Floating-point operations of the layers and the loss for one full batch, over all devices. Optimizer and
    /// reduction (a few per parameter) are not in it, and nothing that is computed a second time.
    constexpr flops_t flops_per_step() const noexcept { return training_flops * batch.samples; }
};

} // namespace trireme
