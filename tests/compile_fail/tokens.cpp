// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layers of tokens. A sample is a list of tokens, numbers of a vocabulary; embedding makes (tokens, width) of it.
// On the page: tokens
#include "prelude.hpp"
#include <trireme/rehearsal.hpp>

namespace tri0109 {
#if defined(EMBEDDING_OF_AN_IMAGE)
// EMBEDDING_OF_AN_IMAGE: TRI0109 | begin with input<tokens>, embedding | at_layer<0, | embedding<256 | rank<3>
// errors <= 1
using net = network<input<1, 28, 28>, embedding<256, 32>>;
#elif defined(EMBEDDING_OF_NOTHING)
// EMBEDDING_OF_NOTHING: TRI0109 | both at least 1 | at_layer<0, | embedding<0
// errors <= 1
using net = network<input<16>, embedding<0, 32>>;
#else
using net = network<input<16>, embedding<256, 32>>;
#endif
auto const parameters = net::parameters;
} // namespace tri0109

namespace tri0151 {
// Tokens are the numbers of a network's samples. What a layer gives are values, in each round of a repeat behind the
// first, too.
struct table { // a layer of one's own that takes tokens: a value for each
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        d.vocabulary = 5;
        d.parameter_count = 1;
        d.parameters[0] = {.name = "values", .shape = make_shape(5)};
        return d;
    }
    static void forward(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.parameter(0)[static_cast<std::size_t>(io.x[i])];
    }
    static void backward_input(auto const&) {}
    static void backward_weights(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.gradient(0)[static_cast<std::size_t>(io.x[i])] += io.dy[i];
    }
};
#if defined(EMBEDDING_OF_VALUES)
// EMBEDDING_OF_VALUES: TRI0151 | put it first | at_layer<1, | embedding<256
// errors <= 1
using net = network<input<16>, linear<16>, embedding<256, 32>>;
#elif defined(OWN_TABLE_OF_VALUES)
// OWN_TABLE_OF_VALUES: TRI0151 | put it first | at_layer<1, | table
// errors <= 1
using net = network<input<16>, linear<16>, table>;
#elif defined(TABLE_TWICE)
// TABLE_TWICE: TRI0151 | outside of repeat | at_layer<1, | table
// errors <= 1
using net = network<input<16>, repeat<2, table>>;
#elif defined(TABLE_IN_A_LATER_REPEAT)
// TABLE_IN_A_LATER_REPEAT: TRI0151 | outside of repeat | at_layer<2, | table
// errors <= 1
using net = network<input<16>, linear<16>, repeat<2, relu, repeat<1, table>>>;
#else
using net = network<input<16>, repeat<1, table>, linear<16>>;
#endif
auto const parameters = net::parameters;
} // namespace tri0151

namespace tri0123 {
#if defined(NORM_OF_A_LIST)
// NORM_OF_A_LIST: TRI0123 | put embedding | at_layer<1, | layer_norm | rank<2> | rank<1>
// errors <= 1
using net = network<input<20>, linear<30>, layer_norm>;
#elif defined(RMS_NORM_OF_AN_IMAGE)
// RMS_NORM_OF_AN_IMAGE: TRI0123 | layer_norm, rms_norm and attention | at_layer<0, | rms_norm | rank<2> | rank<3>
// errors <= 1
using net = network<input<1, 28, 28>, rms_norm>;
#elif defined(POSITIONS_OF_A_LIST)
// POSITIONS_OF_A_LIST: TRI0123 | at_layer<0, | learned_positions | rank<2> | rank<1>
// errors <= 1
using net = network<input<20>, learned_positions, embedding<256, 32>>;
#elif defined(ATTENTION_TO_A_LIST)
// ATTENTION_TO_A_LIST: TRI0123 | at_layer<0, | attention< | rank<2> | rank<1>
// errors <= 1
using net = network<input<24>, attention<heads<2>>>;
#else
using net = network<input<20>, embedding<256, 30>, learned_positions, layer_norm>;
#endif
auto const parameters = net::parameters;
} // namespace tri0123

namespace tri0124 {
// The width is a third of what attention gets: of its queries, of its keys, and of its values.
#if defined(HEADS_THAT_DO_NOT_DIVIDE)
// HEADS_THAT_DO_NOT_DIVIDE: TRI0124 | N heads that divide the width | at_layer<1, | heads<5> | extents<16, 96>
// errors <= 1
using net = network<input<16>, embedding<256, 96>, attention<heads<5>, causal>>;
#elif defined(NO_QUERIES)
// NO_QUERIES: TRI0124 | that linear<3 * width> gives | at_layer<1, | extents<16, 32>
// errors <= 1
using net = network<input<16>, embedding<256, 32>, attention<heads<4>>>;
#elif defined(NO_HEADS)
// NO_HEADS: TRI0124 | at_layer<1, | heads<0>
// errors <= 1
using net = network<input<16>, embedding<256, 96>, attention<heads<0>>>;
#elif defined(CAUSAL_TWICE)
// CAUSAL_TWICE: TRI0124 | whose last two may be left out | at_layer<1, | causal
// errors <= 1
using net = network<input<16>, embedding<256, 96>, attention<heads<4>, causal, causal>>;
#elif defined(DROPPED_TWICE)
// DROPPED_TWICE: TRI0124 | attention<heads<N>, causal, dropout<percent<P>>> | at_layer<1, | dropout<
// errors <= 1
using net =
    network<input<16>, embedding<256, 96>, attention<heads<4>, dropout<percent<10>>, causal, dropout<percent<10>>>>;
#else
using net = network<input<16>, embedding<256, 32>, linear<96>, attention<heads<4>, dropout<percent<10>>, causal>>;
#endif
auto const parameters = net::parameters;
} // namespace tri0124

namespace ignored_token {
using net = network<input<16>, embedding<9, 32>, linear<9>>;
#if defined(A_TOKEN_IGNORED)
// A_TOKEN_IGNORED: TRI0105: ignoring takes a label that is no class of the network's | ignoring<0> | at_least<9
using my_loss = cross_entropy_with<ignoring<0>>;
#else
using my_loss = cross_entropy_with<ignoring<-1>>;
#endif
inline double learn(sample_set const& samples) {
    trainer<net, my_loss, sgd> t;
    return t.step(samples).loss;
}
} // namespace ignored_token

namespace tri0125 {
using net = gpt<gpt_sizes{.layers = 2, .width = 32, .heads = 4, .context = 16, .vocabulary = 256}>;
#if defined(TOKENS_BY_A_LIBRARY)
// TOKENS_BY_A_LIBRARY: TRI0125 | leave out kernels | gets< | kernels<at_once>
// errors <= 1
using t = trainer<net, cross_entropy, adamw, kernels<at_once>>;
#else
using t = trainer<net, cross_entropy, adamw>;
#endif
auto const cost = t::plan(batch{64});
} // namespace tri0125

namespace tri0126 {
// A token is a number among the values between layers. Where these are bf16, its 16 bits are the number; floats hold
// whole numbers up to 2^24, doubles up to 2^53.
template<std::size_t Vocabulary, class... Policies>
using bigrams = trainer<network<input<16>, embedding<Vocabulary, 2>, linear<16>>, cross_entropy, adamw, Policies...>;
#if defined(TOKENS_WIDER_THAN_BF16)
// TOKENS_WIDER_THAN_BF16: TRI0126 | hold 65536 of them with | at_most<65536 | embedding<65537
// errors <= 1
using t = bigrams<65537, on<mesh<rehearsal, dp<1>>>, precision<bf16>>;
#elif defined(TOKENS_WIDER_THAN_FLOAT)
// TOKENS_WIDER_THAN_FLOAT: TRI0126 | 2^24 with precision<f32> | embedding<16777217 | at_most<16777216
// errors <= 1
using t = bigrams<16777217>;
#elif defined(TOKENS_WIDER_THAN_FLOAT_ON_ACCELERATORS)
// TOKENS_WIDER_THAN_FLOAT_ON_ACCELERATORS: TRI0126 | embedding<16777217 | at_most<16777216
// errors <= 1
using t = bigrams<16777217, on<mesh<rehearsal, dp<1>>>>;
#else
using t = bigrams<65536, on<mesh<rehearsal, dp<1>>>, precision<bf16>>;
auto const of_floats = bigrams<65537, on<mesh<rehearsal, dp<1>>>>::plan(batch{64});
auto const of_many = bigrams<16777216>::plan(batch{64});
auto const of_doubles = bigrams<16777217, precision<f64>>::plan(batch{64});
#endif
auto const cost = t::plan(batch{64});
} // namespace tri0126
