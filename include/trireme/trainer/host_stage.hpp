// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/layer/layer.hpp>
#include <trireme/layer/row_context.hpp>
#include <trireme/optimizer/optimizer.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/parallel/update_runs.hpp>
#include <trireme/schedule/fixed_tree.hpp>
#include <trireme/schedule/pipeline/schedule.hpp>
#include <trireme/trainer/composition.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace trireme::detail::inline TRIREME_ISA {

/// One of the stages that a device of the host has, or the whole network: where its samples lie in the device's
/// activations, and its numbers in the device's arenas, behind those of the stages before it.
template<class Model>
struct host_stage {
    using network = typename Model::network;
    using T = typename Model::value_type;
    using stored = typename Model::stored_type;

    stage_activations<Model> blocks;
    row_numbers numbers;
    range slice; ///< of these numbers: those that the device updates
    stage_begin lies;
    int number = 0;              ///< of the stage in the network
    bool last = false;           ///< the network ends with it
    fixed_tree::stack tree = {}; ///< of the shards whose gradients it has in this step

    TRIREME_COLD host_stage(parallel_layout const& l, int rank, int chunk, stage_activations<Model> const& activations)
        : blocks(activations), numbers(numbers_of_stage<network, T>(l, l.stage_of(rank, chunk))),
          slice(l.slice_of_device(rank, numbers.tied_lie, sizeof(T))), lies(stage_lies<Model>(l, rank, chunk)),
          number(l.stage_of(rank, chunk)), last(number + 1 == l.stage_count()) {}

    bool first() const noexcept { return number == 0; }

    /// Numbers in a part of an arena that is as large as this stage's.
    model_numbers<T> numbers_in(T* part) const noexcept {
        return {part,
                nullptr,
                part + numbers.buffers_lie,
                nullptr,
                numbers.first_parameter,
                numbers.first_buffer,
                numbers.first_kept,
                numbers.first_tied,
                numbers.tied_lie};
    }

    /// The numbers that a task works with. Gradients are added to `gradients`, which begin at zero if they are `fresh`;
    /// statistics that were found on the way there, and gradients that were found before the others, wait in the frame.
    model_numbers<T> numbers_for(step_task const& t, T* weights, T* gradients, bool fresh, stored* activations) const {
        auto n = numbers_in(weights);
        auto* const frame = activations + t.frame * blocks.frame;
        auto* const waiting = reinterpret_cast<T*>(frame + blocks.statistics);
        auto* const agreed = reinterpret_cast<T*>(frame + blocks.agreed);
        if (gives_weights(t.kind)) {
            n.gradients = gradients;
            n.statistics = gradients + numbers.buffers_lie;
            if (numbers.elements != 0 && fresh) std::memset(gradients, 0, numbers.elements * sizeof(T));
            for (std::size_t i = 0; i < numbers.buffers && t.kind != task_kind::train; ++i)
                n.statistics[i] += waiting[i];
            if (Model::staged && t.kind == task_kind::backward_weights)
                for_each_agreed<network>(numbers.rows, [&](std::size_t from, std::size_t to, std::size_t count) {
                    for (std::size_t i = 0; i < count; ++i) gradients[to + i] += agreed[from + i];
                });
        } else if (t.kind == task_kind::backward_input) {
            n.agreed = agreed;
            n.first_agreed = network::row(numbers.rows.begin).first_agreed;
            std::fill_n(agreed, network::row(numbers.rows.end).first_agreed - n.first_agreed, T{0});
        } else if (t.kind == task_kind::forward) {
            n.statistics = waiting;
            std::fill_n(waiting, numbers.buffers, T{0});
        }
        return n;
    }

    /// The way of samples through its rows. `before`: those of the micro-batch that come before them.
    template<std::size_t Lanes>
    auto pass(stored* activations, model_numbers<T> const& n, granule_place const& samples, step_task const& t,
              std::size_t before, typename Model::kernels const& kernels,
              typename Model::template pass<>::losses_type const* losses = nullptr) const noexcept {
        using pass_type = typename Model::template pass<Lanes>;
        auto const memory = blocks.memory(activations, t.frame, t.slot);
        bool const alone = !Model::whole_shard && Lanes != Model::template pass<>::lanes;
        return pass_type(alone ? blocks.alone : blocks.plan, memory, n, samples, kernels, blocks.rows,
                         blocks.is_stage() ? before : 0, losses);
    }

    /// Updates some of these numbers, weights `w` by gradients `g`, which are scaled first. `state`: the optimizer's.
    template<class Options>
    void update(range some, T* w, T* g, T* state, T scale, std::span<update_run const> runs,
                std::uint64_t* updates_made, Options const& options) const {
        auto const trained = std::min(some.end, numbers.parameters);
        if (some.begin < trained) {
            if constexpr (Model::clips)
                if (!(scale == T{1}))
                    scale_values(typename Model::sample_kernels{}, g + some.begin, scale, trained - some.begin);
            using optimizer = typename Model::optimizer;
            range const all{numbers.first_parameter + some.begin, numbers.first_parameter + trained};
            update_runs<optimizer>(typename Model::sample_kernels{}, runs, all, w + some.begin, g + some.begin, state,
                                   trained - some.begin, optimizer::template numbers<T>(options),
                                   optimizer::template numbers<T>(without_weight_decay(options)), updates_made);
        }
        auto const buffered = std::min(some.end, numbers.buffers_lie + numbers.buffers);
        for (auto i = std::max(some.begin, numbers.buffers_lie); i < buffered; ++i)
            w[i] += static_cast<T>(statistics_momentum) * (g[i] - w[i]);
    }
};

} // namespace trireme::detail::inline TRIREME_ISA
