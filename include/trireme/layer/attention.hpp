// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/layer/dropout.hpp>
#include <trireme/layer/embedding.hpp>
#include <trireme/layer/layer.hpp>

#include <cstddef>
#include <type_traits>

namespace trireme {

/// Arguments of attention: the number of its heads, and that tokens look only at themselves and at those before them.
template<std::size_t N>
struct heads {};
struct causal {};

template<class... Where>
struct attention_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0124: attention<heads<N>, causal, dropout<percent<P>>>, whose last two may be left out, takes "
                  "tokens of 3 x width values, the queries, keys and values that linear<3 * width> gives, and N heads "
                  "that divide the width");
};

namespace detail {

template<class>
struct is_dropout : std::false_type {};
template<auto Share>
struct is_dropout<dropout<Share>> : std::true_type {};

} // namespace detail

/// Attention: every token becomes a mean of values, weighted by softmax(query key^T / sqrt(width / N)), in N heads. The
/// queries, keys and values are the three thirds of its input. Input (Tokens, 3 Width), output (Tokens, Width); no
/// parameters. PyTorch's scaled_dot_product_attention. Memory grows with the number of tokens: weights are computed
/// again on the way back.
///
/// Options, in any order: `causal`; `dropout<percent<P>>`, by which, in training, weights are zero with a probability
/// of P / 100, and else divided by 1 - P / 100, drawn as that layer draws.
/// Source: Vaswani et al., "Attention is all you need", 2017; in blocks: Dao et al., "FlashAttention", 2022.
template<class Heads, class... Options>
struct attention {
    static constexpr std::size_t count = []<std::size_t N>(heads<N>) { return N; }(Heads{});
    using takes_together = attention; ///< kernels take some samples of few tokens at once
    static constexpr bool is_causal = (std::is_same_v<Options, causal> || ...);
    static constexpr bool drops = (detail::is_dropout<Options>::value || ...);
    using dropped = detail::first_or<detail::is_dropout, dropout<percent<0>>, Options...>;
    static constexpr bool usable = count > 0 && sizeof...(Options) == (is_causal ? 1 : 0) + (drops ? 1 : 0);

    static constexpr layer_description describe(shape in) noexcept {
        if (!usable || !dropped::usable || in.rank != 2 || in.extent[1] % (3 * count) != 0) return refused(in);
        layer_description d;
        auto const tokens = in.extent[0], width = in.extent[1] / 3;
        auto const pairs = is_causal ? tokens * (tokens + 1) / 2 : tokens * tokens;
        d.output = make_shape(tokens, width);
        auto const drawn = drops ? pairs * count : 0;
        d.forward_flops = 4 * pairs * width + drawn;
        d.backward_input_flops = 10 * pairs * width + 2 * drawn;
        d.execution.sample_by_sample = true;
        return d;
    }
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        if constexpr (drops)
            attention_forward<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.y.data, dropped::draw(io));
        else
            evaluate(io);
    }
    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        if constexpr (drops)
            attention_backward_input<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.y.data, io.dy.data,
                                                                  io.dx.data, dropped::draw(io));
        else
            attention_backward_input<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.y.data, io.dy.data,
                                                                  io.dx.data);
    }
    static void evaluate(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        attention_forward<geometry<io_t>, io_t::lanes>(io.policy, io.x.data, io.y.data);
    }

    template<class Where, class In>
    using refusal =
        std::conditional_t<!dropped::usable, dropout_rule<Where>,
                           std::conditional_t<!usable || In::rank == 2, attention_rule<Where, gets<In>>,
                                              token_rows_rule<Where, wants<rank<2>>, gets<rank<In::rank>>>>>;

private:
    template<class Io>
    using geometry = attention_geometry<Io::output::shape.extent[0], Io::output::shape.extent[1], count, is_causal>;
};

} // namespace trireme
