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

/// Facts of a model, and those that only the host's devices read.
struct host_facts : model_facts {
    bool weighs_samples; ///< its loss does
    traffic_values const& moved;
    /// The stages of a rank for micro-batches of `most` samples; null without stages.
    std::vector<stage_blocks> (*stages)(parallel_layout const&, std::size_t most, int rank, rank_frames const&);
};

template<class Model>
std::vector<stage_blocks> stages_of_rank(parallel_layout const& l, std::size_t most, int rank,
                                         rank_frames const& frames) {
    std::vector<stage_blocks> all;
    for (auto const& s : stage_activations<Model>::of_rank(l, most, rank, frames))
        all.push_back(stage_blocks::of(s, sizeof(typename Model::stored_type)));
    return all;
}

template<class Model>
constexpr auto stages_on_host() noexcept -> decltype(host_facts::stages) {
    if constexpr (Model::staged)
        return &stages_of_rank<Model>;
    else
        return nullptr;
}

template<class Model>
inline constexpr host_facts facts_on_host = {facts_of_model<Model>, Model::weighs_samples,
                                             traffic_of<Model, typename Model::template pass<>>,
                                             stages_on_host<Model>()};

} // namespace trireme::detail
