// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/parallel/gradient_norm.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/trainer/composition.hpp>
#include <trireme/trainer/model_facts.hpp>

#include <cstddef>
#include <vector>

namespace trireme::detail {

/// Bytes of an activation arena, from its beginning, where a stage has the values of a micro-batch that cross its
/// boundaries: in its first frame, and in its first outgoing slot.
struct boundary_bytes {
    range rows;
    bytes_t input, output, output_gradient, outgoing;
    bytes_t frame, slot; ///< of one: the next lies so much further
};

/// Facts of a model, and those that only the host's devices read.
struct host_facts : model_facts {
    std::size_t pieces;  ///< of a gradient that is measured; 0 where none is
    bool weighs_samples; ///< its loss does

    row_numbers (*numbers)(parallel_layout const&, int stage);
    crossing_bytes (*across)(std::size_t row, std::size_t samples); ///< see bytes_across
    /// The stages of a rank for micro-batches of `most` samples; null without stages.
    std::vector<boundary_bytes> (*boundaries)(parallel_layout const&, std::size_t most, int rank, rank_frames const&);
};

template<class Model>
std::vector<boundary_bytes> boundaries_of_rank(parallel_layout const& l, std::size_t most, int rank,
                                               rank_frames const& frames) {
    constexpr bytes_t each = sizeof(typename Model::stored_type);
    std::vector<boundary_bytes> all;
    for (auto const& s : stage_activations<Model>::of_rank(l, most, rank, frames))
        all.push_back({s.rows, each * s.input(0), each * s.output(0), each * s.output_gradient(0), each * s.outgoing(0),
                       each * s.frame, each * s.slot});
    return all;
}

template<class Model>
constexpr auto boundaries_of() noexcept -> decltype(host_facts::boundaries) {
    if constexpr (Model::staged)
        return &boundaries_of_rank<Model>;
    else
        return nullptr;
}

template<class Model>
inline constexpr host_facts facts_on_host = {
    facts_of_model<Model>,
    Model::clips ? gradient_pieces<typename Model::network>({0, Model::network::depth}).end : 0,
    Model::weighs_samples,
    &numbers_of_stage<typename Model::network, typename Model::value_type>,
    &bytes_across<Model, typename Model::template pass<>>,
    boundaries_of<Model>(),
};

} // namespace trireme::detail
