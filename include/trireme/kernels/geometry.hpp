// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme {

// Geometries instantiate kernels: sizes known to the compiler, nothing about devices, batches or positions.
// Letters: C input channels, H x W input image, O output channels, K kernel side, P padding, S stride. ChannelsLast:
// value (c, y, x) of a sample stands at [(y * W + x) * C + c], not at [(c * H + y) * W + x], and a weight of a
// convolution, O x K x K x C; only block programs and the libraries of GPUs look at it.

template<std::size_t C, std::size_t H, std::size_t W, std::size_t O, std::size_t K, std::size_t P, std::size_t S,
         bool ChannelsLast = false>
struct conv2d_geometry {
    static constexpr bool channels_last = ChannelsLast;
    static constexpr std::size_t channels = C, height = H, width = W;
    static constexpr std::size_t out_channels = O, kernel = K, padding = P, stride = S;
    static constexpr std::size_t out_height = (H + 2 * P - K) / S + 1;
    static constexpr std::size_t out_width = (W + 2 * P - K) / S + 1;
};

template<std::size_t C, std::size_t H, std::size_t W, std::size_t K, std::size_t S, bool ChannelsLast = false>
struct pool2d_geometry {
    static constexpr bool channels_last = ChannelsLast;
    static constexpr std::size_t channels = C, height = H, width = W;
    static constexpr std::size_t kernel = K, stride = S;
    static constexpr std::size_t out_height = (H - K) / S + 1;
    static constexpr std::size_t out_width = (W - K) / S + 1;
};

/// Rows: those of a sample that are multiplied by the same weights, one behind the other: tokens. Bias: false if there
/// is none; then the pointers to it, and to its gradient, are null.
template<std::size_t In, std::size_t Out, std::size_t Rows = 1, bool Bias = true>
struct linear_geometry {
    static constexpr std::size_t inputs = In, outputs = Out, rows = Rows;
    static constexpr bool bias = Bias;

    /// The bias of an output; 0 if there is none.
    template<class T>
    static constexpr T bias_of([[maybe_unused]] T const* biases, [[maybe_unused]] std::size_t output) noexcept {
        if constexpr (Bias)
            return biases[output];
        else
            return T(0);
    }
};

// Samples of tokens: value d of token t stands at [t * Width + d].

template<std::size_t Tokens, std::size_t Width>
struct token_geometry {
    static constexpr std::size_t tokens = Tokens, width = Width;
};

/// Weighted: false if values are not multiplied by weights; then the pointer to those is null.
template<std::size_t Tokens, std::size_t Width, bool Weighted>
struct rms_norm_geometry {
    static constexpr std::size_t tokens = Tokens, width = Width;
    static constexpr bool weighted = Weighted;
};

template<std::size_t Vocabulary, std::size_t Tokens, std::size_t Width>
struct embedding_geometry {
    static constexpr std::size_t vocabulary = Vocabulary, tokens = Tokens, width = Width;
};

/// A token's query, key and value are the thirds of 3 * Width values, head by head in each. Causal: a token looks at
/// itself and at those before it.
template<std::size_t Tokens, std::size_t Width, std::size_t Heads, bool Causal>
struct attention_geometry {
    static constexpr std::size_t tokens = Tokens, width = Width, heads = Heads, head = Width / Heads;
    static constexpr std::size_t query = 0, key = Width, value = 2 * Width, step = 3 * Width;
    static constexpr bool causal = Causal;

    /// Tokens that a token looks at: the first ones.
    static constexpr std::size_t seen(std::size_t token) noexcept { return Causal ? token + 1 : Tokens; }
    /// The number of the weight that a sample's token has for token 0 in a head: all weights of a shard are numbered
    /// through, those that a causal one has not, too.
    TRIREME_HOST_DEVICE static constexpr std::uint64_t first_weight(std::uint64_t sample, std::size_t of_head,
                                                                    std::size_t token) noexcept {
        return ((sample * Heads + of_head) * Tokens + token) * Tokens;
    }
};

template<std::size_t C, std::size_t Positions, bool ChannelsLast = false>
struct channel_geometry {
    static constexpr bool channels_last = ChannelsLast;
    static constexpr std::size_t channels = C, positions = Positions;
};

} // namespace trireme
