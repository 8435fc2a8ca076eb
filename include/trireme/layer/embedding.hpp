// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/layer/layer.hpp>
#include <trireme/layer/linear.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme {

template<class... Where>
struct embedding_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0109: embedding<vocabulary, width> needs both at least 1, and a list of tokens as its input, the "
                  "network's own: begin with input<tokens>, embedding<...>");
};
template<class... Where>
struct token_rows_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0123: learned_positions, layer_norm, rms_norm and attention work on tokens, rows of values: put embedding, "
        "or another layer that gives (tokens, width), before them");
};

/// A table of vectors: each token of a sample, a number in [0, Vocabulary), becomes the row of that number. Input
/// (Tokens), output (Tokens, Width). Parameter: weight (Vocabulary, Width), PyTorch's nn.Embedding. First layer of a
/// network, for numbers of tokens have no gradient. A row that is tied to it computes a score for each token of the
/// vocabulary, the products of its input's tokens with the rows of the table.
template<std::size_t Vocabulary, std::size_t Width>
struct embedding {
    using tied_as = linear<Vocabulary, without_bias>;

    static constexpr layer_description describe(shape in) noexcept {
        if (Vocabulary == 0 || Width == 0 || in.rank != 1) return refused(in);
        layer_description d;
        d.output = make_shape(in.extent[0], Width);
        d.backward_weights_flops = d.output.size();
        d.parameter_count = 1;
        d.parameters[0] = {"weight", make_shape(Vocabulary, Width), Width, Width, initial::weights};
        d.vocabulary = Vocabulary;
        d.execution.backward_reads_output = false;
        d.execution.sample_by_sample = true;
        return d;
    }
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        embedding_forward<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.parameter(0), io.y.data);
    }
    static void backward_input(auto const&) noexcept {} // nobody asks for it: see `vocabulary`
    static void backward_weights(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        embedding_backward_weights<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.dy.data, io.gradient(0));
    }

    template<class Where, class In>
    using refusal = embedding_rule<Where, gets<rank<In::rank>>>;

private:
    template<class Io>
    using geometry = embedding_geometry<Vocabulary, Io::input::size, Width>;
};

/// A vector for each place in a sample, added to the token that stands there: y = x + weight. Input and output (Tokens,
/// Width). Parameter: weight (Tokens, Width), beginning as weights do.
struct learned_positions {
    static constexpr layer_description describe(shape in) noexcept {
        if (in.rank != 2) return refused(in);
        layer_description d;
        d.output = in;
        d.forward_flops = in.size();
        d.backward_weights_flops = in.size();
        d.parameter_count = 1;
        d.parameters[0] = {"weight", in, in.extent[1], in.extent[1], initial::weights};
        d.execution.backward_reads_input = false;
        d.execution.backward_reads_output = false;
        d.execution.in_place = true;
        d.execution.sample_by_sample = true;
        return d;
    }
    static void forward(auto const& io) { add_values(io.policy, io.x.data, io.parameter(0), io.y.data, io.y.size()); }
    static void backward_input(auto const& io) {
        if (io.dx.data != io.dy.data)
            activation_forward<identity_function>(io.policy, io.dy.data, io.dx.data, io.dx.size());
    }
    static void backward_weights(auto const& io) {
        auto* const to = io.gradient(0);
        add_values(io.policy, io.dy.data, static_cast<std::remove_pointer_t<decltype(to)> const*>(to), to,
                   io.dy.size());
    }

    template<class Where, class In>
    using refusal = token_rows_rule<Where, wants<rank<2>>, gets<rank<In::rank>>>;
};

} // namespace trireme
