// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../made_up.hpp"
#include "../step_worker.hpp"

#include <trireme/trireme.hpp>

#include <cstddef>

// What the workers share that train a GPT in Trireme, byte by byte: the networks, their texts, the replicas' program.
namespace gpt_bench {

using namespace trireme;

/// A network, and the text that it learns.
template<gpt_sizes Sizes>
struct byte_gpt {
    using network = gpt<Sizes>;

    static bench::made_up_text text() { return {1024, Sizes.context}; }
};
using width128 = byte_gpt<gpt_sizes{.layers = 4, .width = 128, .heads = 4, .context = 128}>;
using width256 = byte_gpt<gpt_sizes{.layers = 6, .width = 256, .heads = 8, .context = 256}>;

/// Karpathy's microgpt: 4,192 parameters, one block, windows of 16 of the letters and one more.
struct micro {
    static constexpr std::size_t width = 16, context = 16, vocabulary = 27;
    using norm = rms_norm_without_weight;
    using look_back = residual<
        sequential<norm, linear<3 * width, without_bias>, attention<heads<4>, causal>, linear<width, without_bias>>>;
    using think = residual<sequential<norm, linear<4 * width, without_bias>, relu, linear<width, without_bias>>>;
    using network = trireme::network<input<context>, embedding<vocabulary, width>, learned_positions, norm, look_back,
                                     think, linear<vocabulary, without_bias>>;
    static_assert(network::parameters == 4192);

    static bench::made_up_text text() { return {1024, context, vocabulary}; }
};

inline constexpr float learning_rate = 1e-3f;

/// The program WORKER BATCH DEVICES.
template<class Gpt, class Optimizer = adamw>
int run(int argc, char** argv) {
    using trainer_type =
        trainer<typename Gpt::network, cross_entropy, Optimizer, on<mesh<host, dp<dynamic>>>, hold_weights<once>>;
    return bench::steps_main<trainer_type>(argc, argv, {.learning_rate = learning_rate, .weight_decay = 0.01f},
                                           Gpt::text());
}

} // namespace gpt_bench
