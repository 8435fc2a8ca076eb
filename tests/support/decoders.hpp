// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/readers.hpp>
#include <trireme/trireme.hpp>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

// Small networks of tokens, and a text that they learn.

namespace test_decoders {
using namespace trireme;

inline constexpr std::size_t context = 10;
using decoder = gpt<gpt_sizes{.layers = 2, .width = 12, .heads = 3, .context = context, .vocabulary = 256}>;
using tied_decoder =
    gpt<gpt_sizes{.layers = 1, .width = 12, .heads = 3, .context = context, .vocabulary = 256, .tied = true}>;

/// Options of the layers, which a decoder has none of.
using with_options =
    network<input<context>, embedding<256, 12>, learned_positions,
            residual<sequential<rms_norm, linear<36, without_bias>, attention<heads<3>, causal, dropout<percent<20>>>,
                                linear<12, without_bias>>>,
            rms_norm_without_weight, linear<30>, relu, linear<256>>;

template<class Network, class... Policies>
using learner = trainer<Network, cross_entropy, adamw, Policies...>;

/// Losses of some steps, the last on fewer samples than a batch; the accuracy then; and the weights.
template<class Trainer>
auto trained(Trainer& t) {
    std::string text;
    for (int i = 0; i < 30; ++i) text += "the quick brown fox jumps over the lazy dog; ";
    auto const samples = text_windows(text, context);
    std::pair<std::vector<double>, std::vector<typename Trainer::value_type>> found;
    for (std::size_t const n : std::initializer_list<std::size_t>{6, 6, 6, 5})
        found.first.push_back(t.step(samples.take(found.first.size() * 6, n)).loss);
    found.first.push_back(t.evaluate(samples.take(30, 20)).accuracy);
    found.second = t.gather_parameters();
    return found;
}

} // namespace test_decoders
