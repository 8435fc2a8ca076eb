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

#include <cstddef>

namespace trireme {

/// Arguments of gpt: transformer blocks, values of a token, tokens of a window, and different tokens.
template<std::size_t N>
struct layers {};
template<std::size_t N>
struct width {};
template<std::size_t N>
struct context {};
template<std::size_t N>
struct vocabulary {};

/// A transformer's block, as GPT-2 has it: attention, then two linear layers with gelu_tanh between them, each behind a
/// layer_norm and added to its input. Input and output (Tokens, Width).
template<std::size_t Width, std::size_t Heads>
using gpt_block =
    sequential<residual<sequential<layer_norm, linear<3 * Width>, attention<heads<Heads>, causal>, linear<Width>>>,
               residual<sequential<layer_norm, linear<4 * Width>, gelu_tanh, linear<Width>>>>;

namespace detail {

template<class Blocks, class Width, class Heads, class Context, class Vocabulary>
struct gpt_network;
template<std::size_t B, std::size_t W, std::size_t H, std::size_t C, std::size_t V>
struct gpt_network<layers<B>, width<W>, heads<H>, context<C>, vocabulary<V>> {
    using type = network<input<C>, embedding<V, W>, positions, repeat<B, gpt_block<W, H>>, layer_norm, linear<V>>;
};

} // namespace detail

/// A decoder of tokens, a network of the layers above: gpt<layers<4>, width<128>, heads<4>, context<128>,
/// vocabulary<256>>. Its output has a score for each token of the vocabulary, (Context, Vocabulary), behind each
/// token of the window; the weights of its end are its own, not those of the embedding.
/// Source: Radford et al., "Language models are unsupervised multitask learners", 2019.
template<class Blocks, class Width, class Heads, class Context, class Vocabulary>
using gpt = typename detail::gpt_network<Blocks, Width, Heads, Context, Vocabulary>::type;

} // namespace trireme
