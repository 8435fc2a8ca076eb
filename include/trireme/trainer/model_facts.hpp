// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/optimizer/optimizer.hpp>
#include <trireme/parallel/gradient_norm.hpp>
#include <trireme/parallel/pieces.hpp>

#include <cstddef>
#include <span>
#include <type_traits>

namespace trireme::detail {

/// The values of a model that code for all models reads when it runs, so that it is compiled once.
struct model_facts {
    row_list network;
    std::size_t parameters, buffers, arena_elements, tied_gradients, loss_terms;
    std::size_t inputs, outputs, targets; ///< values of a sample
    std::size_t stored_bytes;             ///< of a value between two layers
    std::size_t pieces;                   ///< of a gradient that is measured; 0 where none is
    std::span<layer_exchange const> exchanges;
    bool classes; ///< targets are classes
    bool answers; ///< outputs are right or wrong
    bool trains, clips;
    bool whole_shard, whole_batch; ///< some layer needs all samples of these
    bool counts_updates;           ///< the optimizer wants their number

    /// All numbers of a list.
    constexpr std::size_t size(canonical_list const& list) const noexcept {
        return list.of == canonical_list::buffers ? buffers : parameters;
    }
};

template<class Model, class Network = typename Model::network>
inline constexpr model_facts facts_of_model{
    .network = Network::rows,
    .parameters = Network::parameters,
    .buffers = Network::buffers,
    .arena_elements = Model::arena_elements,
    .tied_gradients = Network::tied_gradients,
    .loss_terms = Network::loss_terms,
    .inputs = Network::input_extents::size,
    .outputs = Network::output_extents::size,
    .targets = Model::targets,
    .stored_bytes = sizeof(typename Model::stored_type),
    .pieces = Model::clips ? gradient_pieces<Network>({0, Network::depth}).end : 0,
    .exchanges = {Network::exchanges.begin(), Network::exchanges.end()},
    .classes = std::is_same_v<typename Model::target, int>,
    .answers = Model::loss::describe(Network::output_extents::shape).has_answers(),
    .trains = Model::trains,
    .clips = Model::clips,
    .whole_shard = Network::whole_shard,
    .whole_batch = Network::whole_batch,
    .counts_updates = counts_updates<typename Model::optimizer>};

} // namespace trireme::detail
