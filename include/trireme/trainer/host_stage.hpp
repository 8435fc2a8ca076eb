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
#include <trireme/trainer/placed_stage.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace trireme::detail::inline TRIREME_ISA {

/// Numbers that a step takes from the options. `Numbers`: those of the optimizer.
template<class Numbers>
struct step_numbers {
    Numbers decaying, other; ///< for weights that decay, and for those that do not
    double max_norm;         ///< the largest norm of a gradient that is not clipped
};
template<class Model, class Options>
auto step_numbers_of(Options const& o) {
    using optimizer = typename Model::optimizer;
    using T = typename Model::value_type;
    using numbers = decltype(optimizer::template numbers<T>(o));
    double max_norm = 0;
    if constexpr (Model::clips) max_norm = static_cast<double>(o.max_norm.value);
    return step_numbers<numbers>{optimizer::template numbers<T>(o),
                                 optimizer::template numbers<T>(without_weight_decay(o)), max_norm};
}

/// A stage of a device of the host.
template<class Model>
struct host_stage : placed_stage<Model, typename Model::template pass<>> {
    using base = placed_stage<Model, typename Model::template pass<>>;
    using network = typename Model::network;
    using T = typename Model::value_type;
    using stored = typename Model::stored_type;
    using base::base;
    using base::blocks;
    using base::numbers;
    using base::numbers_in;

    /// The numbers that a task works with. Gradients are added to `gradients`, which begin at zero if they are `fresh`;
    /// statistics that were found on the way there, and gradients that were found before the others, wait in the frame.
    model_numbers<T> numbers_for(step_task const& t, T* weights, T* gradients, bool fresh, stored* activations) const {
        auto n = numbers_in(weights, gives_weights(t.kind) ? gradients : nullptr);
        auto* const frame = activations + t.frame * blocks.frame;
        auto* const waiting = reinterpret_cast<T*>(frame + blocks.statistics);
        auto* const agreed = reinterpret_cast<T*>(frame + blocks.agreed);
        if (gives_weights(t.kind)) {
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

    /// Updates some of these numbers, weights `w` by gradients `g`, which are scaled first. `state`: the optimizer's;
    /// `now`: what it takes of the options of the step.
    template<class Numbers>
    void update(range some, T* w, T* g, T* state, T scale, std::span<update_run const> runs,
                std::uint64_t* updates_made, step_numbers<Numbers> const& now) const {
        auto const trained = std::min(some.end, numbers.parameters);
        if (some.begin < trained) {
            if constexpr (Model::clips)
                if (!(scale == T{1}))
                    scale_values(typename Model::sample_kernels{}, g + some.begin, scale, trained - some.begin);
            range const all{numbers.first_parameter + some.begin, numbers.first_parameter + trained};
            update_runs<typename Model::optimizer>(typename Model::sample_kernels{}, runs, all, w + some.begin,
                                                   g + some.begin, state, trained - some.begin, now.decaying, now.other,
                                                   updates_made);
        }
        auto const buffered = std::min(some.end, numbers.buffers_lie + numbers.buffers);
        for (auto i = std::max(some.begin, numbers.buffers_lie); i < buffered; ++i)
            w[i] += static_cast<T>(statistics_momentum) * (g[i] - w[i]);
    }
};

} // namespace trireme::detail::inline TRIREME_ISA
