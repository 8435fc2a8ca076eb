// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/layer/row_context.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/schedule/fixed_tree.hpp>
#include <trireme/trainer/composition.hpp>

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
};

} // namespace trireme::detail::inline TRIREME_ISA
