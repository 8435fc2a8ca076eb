// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/layer/activation.hpp>
#include <trireme/layer/attention.hpp>
#include <trireme/layer/combinators.hpp>
#include <trireme/layer/embedding.hpp>
#include <trireme/layer/layer_norm.hpp>
#include <trireme/layer/linear.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/layer/tied.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme {

/// The sizes of a gpt, the argument of that network.
struct gpt_sizes {
    std::size_t layers = 1;       ///< transformer blocks
    std::size_t width = 16;       ///< values of a token
    std::size_t heads = 1;        ///< heads of attention; they divide the width
    std::size_t context = 16;     ///< tokens of a window
    std::size_t vocabulary = 256; ///< different tokens
    bool tied = false;            ///< the weights of the end are those of the embedding, as GPT-2's are
};

/// A transformer's block, as GPT-2 has it: attention, then two linear layers with gelu_tanh between them, each behind a
/// layer_norm and added to its input. Input and output (Tokens, Width).
template<std::size_t Width, std::size_t Heads>
using gpt_block =
    sequential<residual<sequential<layer_norm, linear<3 * Width>, attention<heads<Heads>, causal>, linear<Width>>>,
               residual<sequential<layer_norm, linear<4 * Width>, gelu_tanh, linear<Width>>>>;

/// A decoder of tokens, a network of layers that one could write down as well: gpt<gpt_sizes{.layers = 4, .width = 128,
/// .heads = 4, .context = 128, .vocabulary = 256}>. Its output has a score for each token of the vocabulary, (Context,
/// Vocabulary), behind each token of the window; the weights of its end are its own, or, if it is tied, those of the
/// embedding, without a bias.
/// Source: Radford et al., "Language models are unsupervised multitask learners", 2019.
template<gpt_sizes Sizes>
using gpt = network<input<Sizes.context>, embedding<Sizes.vocabulary, Sizes.width>, learned_positions,
                    repeat<Sizes.layers, gpt_block<Sizes.width, Sizes.heads>>, layer_norm,
                    std::conditional_t<Sizes.tied, tied<0>, linear<Sizes.vocabulary>>>;

} // namespace trireme
