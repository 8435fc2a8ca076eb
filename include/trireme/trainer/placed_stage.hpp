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
#include <vector>

namespace trireme::detail::inline TRIREME_ISA {

/// One of the stages that a device has, or the whole network: its numbers, in the device's arenas behind those of the
/// stages before it.
template<class T>
struct stage_numbers {
    /// A copy of another stage's parameters, with which a tied row computes.
    struct copied_parameters {
        std::size_t row; ///< that has them
        range of;        ///< the network's parameters
        std::size_t at;  ///< element of the stage's weights
    };

    row_numbers numbers;
    stage_begin lies;
    range slice;                 ///< of its numbers: those that the device updates
    range terms;                 ///< of the loss: those that its rows add
    int number = 0;              ///< of the stage in the network
    bool last = false;           ///< the network ends with it
    fixed_tree::stack tree = {}; ///< of the shards whose gradients it has in this step
    bool adds = false;           ///< its gradients of this step have begun: others are added to them
    std::vector<copied_parameters> copies = {};

    template<class Model>
    TRIREME_COLD static stage_numbers of(parallel_layout const& l, int rank, int chunk) {
        using network = typename Model::network;
        int const number = l.stage_of(rank, chunk);
        auto const numbers = numbers_of_stage<network, T>(l, number);
        stage_numbers s{numbers,
                        stage_lies<Model>(l, rank, chunk),
                        l.slice_of_device(rank, numbers.own(), sizeof(T)),
                        {network::row(numbers.rows.begin).first_term, network::row(numbers.rows.end).first_term},
                        number,
                        number + 1 == l.stage_count()};
        if constexpr (network::tied_gradients != 0)
            numbers.for_each_copy(network::rows, [&](std::size_t owner, std::size_t at) {
                auto const& row = network::row(owner);
                auto const begin = row.first_parameter;
                s.copies.push_back({owner, {begin, begin + row.description.parameter_elements()}, at});
            });
        return s;
    }

    bool first() const noexcept { return number == 0; }

    /// f(term) for the rows that add to the loss.
    template<class F>
    void for_terms(F const& f) const {
        for (auto i = terms.begin; i < terms.end; ++i) f(i);
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
    template<class Network, class Initialiser>
    void initialise(T* weights, std::uint64_t seed) const {
        initialise_parameters<Network, Initialiser>(weights, seed, numbers.rows);
        initialise_buffers<Network>(weights + numbers.buffers_lie, numbers.rows);
        for (auto const& c : copies)
            initialise_parameters<Network, Initialiser>(weights + c.at, seed, {c.row, c.row + 1});
    }
    /// The stage's part of all of a network's parameters, copies included, or of its buffers.
    void take_parameters(std::span<T const> all, T* weights) const {
        std::ranges::copy(all.subspan(numbers.first_parameter, numbers.parameters), weights);
        for (auto const& c : copies) std::ranges::copy(all.subspan(c.of.begin, c.of.size()), weights + c.at);
    }
    void take_buffers(std::span<T const> all, T* weights) const {
        std::ranges::copy(all.subspan(numbers.first_buffer, numbers.buffers), weights + numbers.buffers_lie);
    }
};

/// A stage, and the place of its samples in the device's activations. `Pass`: the way of samples through rows.
template<class Model, class Pass>
struct placed_stage : stage_numbers<typename Model::value_type> {
    stage_activations<Model, Pass> blocks;

    TRIREME_COLD placed_stage(parallel_layout const& l, int rank, int chunk,
                              stage_activations<Model, Pass> const& activations)
        : stage_numbers<typename Model::value_type>(
              stage_numbers<typename Model::value_type>::template of<Model>(l, rank, chunk)),
          blocks(activations) {}
};

} // namespace trireme::detail::inline TRIREME_ISA
