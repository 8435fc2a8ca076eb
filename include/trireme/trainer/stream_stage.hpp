// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/parallel/gradient_norm.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/trainer/placed_stage.hpp>
#include <trireme/trainer/stream_context.hpp>

#include <cstddef>
#include <vector>

namespace trireme::detail {

/// A stage of an accelerator.
template<class Model, class Context>
struct stream_stage : placed_stage<Model, Context> {
    using placed_stage<Model, Context>::placed_stage;
    using narrow = narrow_parameters<typename Model::network, typename Model::kernels, typename Model::value_type>;

    bytes_t narrow_lies = 0;  ///< its narrow parameters in the rank's
    range pieces;             ///< of its gradients, where they are measured
    std::size_t runs_lie = 0; ///< the first of their runs among the rank's
    range parts, sums;        ///< places of its first slot of gradients, reduction by reduction, and of the others

    /// All stages of a rank. `most`: the most samples of a micro-batch.
    static std::vector<stream_stage> of_rank(parallel_layout const& l, std::size_t most, int rank) {
        auto const blocks = stage_activations<Model, Context>::of_rank(l, most, rank, frames_of_rank(l, rank));
        std::vector<stream_stage> all;
        for (int chunk = 0; chunk < l.chunks(); ++chunk) {
            stream_stage s(l, rank, chunk, blocks[static_cast<std::size_t>(chunk)]);
            if (Model::clips) s.pieces = gradient_pieces<typename Model::network>(s.numbers.rows);
            if (chunk != 0) {
                s.narrow_lies = all.back().narrow_lies + narrow::bytes(all.back().numbers.rows);
                s.runs_lie = all.back().runs_lie + all.back().pieces.size();
            }
            all.push_back(s);
        }
        return all;
    }
};

/// The stages of a model on accelerators.
template<class Model>
using stage_on_streams = stream_stage<Model, stream_context<typename Model::network, typename Model::kernels,
                                                            typename Model::value_type, typename Model::loss>>;

} // namespace trireme::detail
