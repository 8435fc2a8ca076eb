// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/layer/initialise.hpp>
#include <trireme/layer/row_context.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/pieces.hpp>
#include <trireme/schedule/fixed_tree.hpp>
#include <trireme/trainer/composition.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme::detail::inline TRIREME_ISA {

/// One of the stages that a device has, or the whole network: where its samples lie in the device's activations, and
/// its numbers in the device's arenas, behind those of the stages before it. `Pass`: the way of samples through rows.
template<class Model, class Pass>
struct placed_stage {
    using network = typename Model::network;
    using T = typename Model::value_type;

    stage_activations<Model, Pass> blocks;
    row_numbers numbers;
    stage_begin lies;
    int number = 0;              ///< of the stage in the network
    bool last = false;           ///< the network ends with it
    fixed_tree::stack tree = {}; ///< of the shards whose gradients it has in this step

    TRIREME_COLD placed_stage(parallel_layout const& l, int rank, int chunk,
                              stage_activations<Model, Pass> const& activations)
        : blocks(activations), numbers(numbers_of_stage<network, T>(l, l.stage_of(rank, chunk))),
          lies(stage_lies<Model>(l, rank, chunk)), number(l.stage_of(rank, chunk)),
          last(number + 1 == l.stage_count()) {}

    bool first() const noexcept { return number == 0; }

    /// f(term) for the rows that add to the loss.
    template<class F>
    void for_terms([[maybe_unused]] F const& f) const {
        if constexpr (network::loss_terms != 0)
            for (auto i = network::row(numbers.rows.begin).first_term; i < network::row(numbers.rows.end).first_term;
                 ++i)
                f(i);
    }

    /// Weights and gradients of the stage, each in a part of an arena that begins with them.
    model_numbers<T> numbers_in(T* weights, T* gradients) const noexcept {
        auto const behind = [&](T* part) { return part == nullptr ? nullptr : part + numbers.buffers_lie; };
        return {weights,
                gradients,
                behind(weights),
                behind(gradients),
                numbers.first_parameter,
                numbers.first_buffer,
                numbers.first_kept,
                numbers.first_tied,
                numbers.tied_lie};
    }

    // ---- its weights, in a part of an arena that begins with them ----

    held_numbers<T> held(T const* weights) const noexcept {
        return {numbers.rows, {weights, numbers.parameters}, {weights + numbers.buffers_lie, numbers.buffers}};
    }
    /// First values, copies included.
    template<class Initialiser>
    void initialise(T* weights, std::uint64_t seed) const {
        initialise_parameters<network, Initialiser>(weights, seed, numbers.rows);
        initialise_buffers<network>(weights + numbers.buffers_lie, numbers.rows);
        numbers.for_each_copy(network::rows, [&](std::size_t owner, std::size_t at) {
            initialise_parameters<network, Initialiser>(weights + at, seed, {owner, owner + 1});
        });
    }
    /// The stage's part of all of a network's parameters, copies included, or of its buffers.
    void take_parameters(std::span<T const> all, T* weights) const {
        std::ranges::copy(all.subspan(numbers.first_parameter, numbers.parameters), weights);
        numbers.for_each_copy(network::rows, [&](std::size_t owner, std::size_t at) {
            auto const& row = network::row(owner);
            std::ranges::copy(all.subspan(row.first_parameter, row.description.parameter_elements()), weights + at);
        });
    }
    void take_buffers(std::span<T const> all, T* weights) const {
        std::ranges::copy(all.subspan(numbers.first_buffer, numbers.buffers), weights + numbers.buffers_lie);
    }
};

} // namespace trireme::detail::inline TRIREME_ISA
