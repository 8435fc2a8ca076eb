// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows that compute with the parameters of another row. Rows are counted as they run, from 0.
// On the page: tied layers
#include "prelude.hpp"

namespace tri0120 {
// `gets` is the layer of the row that was named, if there is one before: one without parameters, or one whose devices
// agree on something (batch_norm).
#if defined(TIED_TO_A_FUNCTION)
// TIED_TO_A_FUNCTION: TRI0120 | name a row before it whose layer has parameters of its own | at_layer<3, | tied<1>
// | gets<
// errors <= 1
using net = network<input<20>, linear<20>, relu, linear<20>, tied<1>, linear<10>>;
#elif defined(TIED_TO_A_NORM)
// TIED_TO_A_NORM: TRI0120 | at_layer<4, | tied<1> | batch_norm<
// errors <= 1
using net = network<input<20>, linear<20>, batch_norm<per_shard>, relu, linear<20>, tied<1>, linear<10>>;
#elif defined(TIED_TO_ITSELF)
// TIED_TO_ITSELF: TRI0120 | at_layer<2, | tied<2>
// errors <= 1
using net = network<input<20>, linear<20>, relu, tied<2>, linear<10>>;
#elif defined(TIED_TO_A_LATER_ROW)
// TIED_TO_A_LATER_ROW: TRI0120 | at_layer<2, | tied<3>
// errors <= 1
using net = network<input<20>, linear<20>, relu, tied<3>, linear<20>>;
#elif defined(TIED_TO_A_TIED_ROW)
// TIED_TO_A_TIED_ROW: TRI0120 | at_layer<4, | tied<2>
// errors <= 1
using net = network<input<20>, linear<20>, relu, tied<0>, relu, tied<2>>;
#elif defined(TIED_IN_A_REPEAT)
// TIED_IN_A_REPEAT: TRI0120 | outside of repeat | at_layer<2, | tied<0>
// errors <= 1
using net = network<input<20>, linear<20>, relu, repeat<2, tied<0>, relu>>;
#else
using net = network<input<20>, linear<20>, relu, linear<20>, tied<2>, linear<10>>;
#endif
auto const parameters = net::parameters;
} // namespace tri0120

namespace tri0121 {
// `wants` is the input of the row that was named, of an embedding its output, `gets` the input of the tied one.
#if defined(TIED_INPUT)
// TIED_INPUT: TRI0121 | takes an input of the same shape | at_layer<2, | tied<0> | extents<20> | extents<30>
// errors <= 1
using net = network<input<20>, linear<30>, relu, tied<0>>;
#elif defined(TIED_TO_A_TABLE)
// TIED_TO_A_TABLE: TRI0121 | where that row is an embedding, tokens of its width | at_layer<2, | tied<0>
// | extents<16, 32> | extents<16, 64>
// errors <= 1
using net = network<input<16>, embedding<256, 32>, linear<64>, tied<0>>;
#else
using net = network<input<20>, linear<20>, relu, tied<0>>;
#endif
auto const cost = trainer<net, cross_entropy, sgd>::plan(batch{64});
} // namespace tri0121

namespace tied_tokens {
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
#if defined(TIED_TO_TOKENS)
// TIED_TO_TOKENS: TRI0151 | give it `tied_as` | at_layer<2, | tied<0>
// errors <= 1
using net = network<input<3>, table, linear<3>, tied<0>>;
#else
using net = network<input<3>, table, linear<3>, tied<1>>;
#endif
auto const parameters = net::parameters;
} // namespace tied_tokens

namespace tri0122 {
#if defined(TIED_AND_HELD_ONCE)
// TIED_AND_HELD_ONCE: TRI0122 | leave out one of the two | at_layer<2, | tied<0> | hold_weights<
// errors <= 1
using t = trainer<network<input<20>, linear<20>, relu, tied<0>>, cross_entropy, sgd, on<mesh<host, dp<2>>>,
                  hold_weights<once>>;
#else
using t = trainer<network<input<20>, linear<20>, relu, tied<0>>, cross_entropy, sgd, on<mesh<host, dp<2>>>>;
#endif
auto const cost = t::plan(batch{64});
} // namespace tri0122
