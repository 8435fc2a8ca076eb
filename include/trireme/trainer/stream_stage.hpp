// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/parallel/gradient_norm.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/trainer/composition.hpp>
#include <trireme/trainer/placed_stage.hpp>
#include <trireme/trainer/stream_context.hpp>

#include <cstddef>
#include <vector>

namespace trireme::detail {

/// A stage of an accelerator.
template<class T>
struct stream_stage : stage_numbers<T> {
    /// Gradients of a layer that agrees on something on the way back: where they wait, and where they belong.
    struct agreed_gradients {
        std::size_t from, to, count;
    };

    stage_blocks blocks;
    std::vector<agreed_gradients> agreed;
    bytes_t narrow_lies = 0;  ///< its narrow parameters in the rank's
    range pieces = {};        ///< of its gradients, where they are measured
    std::size_t runs_lie = 0; ///< the first of their runs among the rank's
    range parts = {};         ///< places of its first slot of gradients, reduction by reduction
    range sums = {};          ///< and of the other slots

    /// All stages of a rank, with their activations.
    template<class Model, class Context>
    static std::vector<stream_stage> of_rank(parallel_layout const& l, int rank,
                                             std::vector<stage_activations<Model, Context>> const& activations) {
        using network = typename Model::network;
        using narrow = narrow_parameters<network, typename Model::kernels, typename Model::value_type>;
        std::vector<stream_stage> all;
        for (auto const& a : activations) {
            stream_stage s{stream_stage::template of<Model>(l, rank, static_cast<int>(all.size())),
                           stage_blocks::of(a, sizeof(typename Model::stored_type)),
                           {}};
            if constexpr (network::whole_shard)
                for_each_agreed<network>(s.numbers.rows, [&](std::size_t from, std::size_t to, std::size_t count) {
                    s.agreed.push_back({from, to, count});
                });
            if constexpr (Model::clips) s.pieces = gradient_pieces<network>(s.numbers.rows);
            if (!all.empty()) {
                s.narrow_lies = all.back().narrow_lies + narrow::bytes(all.back().numbers.rows);
                s.runs_lie = all.back().runs_lie + all.back().pieces.size();
            }
            all.push_back(s);
        }
        return all;
    }
};

} // namespace trireme::detail
