// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/philox.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/dropout_draw.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

// Programs of attention share this: the tile that a block has, and what they know of weights.
namespace trireme::blocks {

/// Tiles of `Side` tokens divide the tokens of a head, and a block has one of them.
template<class G, u32 Side>
struct tile_of_block {
    static constexpr u32 side = Side, tokens = G::tokens, head = G::head, heads = G::heads;
    static constexpr u32 tiles = divide_up(tokens, side); ///< of a sample's head

    u32 sample, head_number, tile;

    /// `back`: the last tile comes first, which looks at the most tokens.
    TRIREME_HOST_DEVICE tile_of_block(u32 block, bool back)
        : sample(block / tiles / heads), head_number(block / tiles % heads), tile(block % tiles) {
        if (back) tile = tiles - 1 - tile;
    }
    static u32 blocks(std::size_t samples) noexcept { return static_cast<u32>(samples) * heads * tiles; }

    /// The head's values of a token begin here, where tokens are `step_of_token` apart.
    TRIREME_HOST_DEVICE std::size_t place(u32 token, u32 step_of_token) const {
        return (std::size_t{sample} * tokens + token) * step_of_token + head_number * head;
    }
    TRIREME_HOST_DEVICE std::size_t place_of_statistics(u32 token) const {
        return (std::size_t{sample} * heads + head_number) * tokens + token;
    }
    TRIREME_HOST_DEVICE static u32 count(u32 of_tile) {
        return tokens - of_tile * side < side ? tokens - of_tile * side : side;
    }
    /// True if a token looks at another one.
    TRIREME_HOST_DEVICE static bool sees(u32 token, u32 other) {
        return token < tokens && other < tokens && (!G::causal || other <= token);
    }
};

/// The way back needs of a token the logarithm of what softmax divides by, and dy y, which the gradient of softmax
/// takes from each weight.
template<class N>
struct attention_statistics {
    N log_sum, inner;
};

/// Attention without dropout keeps all weights.
struct weights_kept {
    TRIREME_HOST_DEVICE weights_kept of_head(u32, u32) const { return {}; }
    template<class N>
    TRIREME_HOST_DEVICE N factor(u32, u32) const {
        return N(1);
    }
};

/// Attention with dropout draws the weights of a shard's samples, of those from `before` on. Each costs 10 rounds of
/// Philox, which would do for four: neighbours belong to other threads.
template<class G, class N>
struct weights_drawn {
    staged_shard const* about;
    u32 layer, threshold;
    N scale;
    std::uint64_t before;

    struct head {
        random_stream random;
        std::uint64_t first; ///< number of its first weight
        u32 threshold;
        N scale;

        /// The factor of the weight that a token has for another one.
        template<class>
        TRIREME_HOST_DEVICE N factor(u32 token, u32 other) const {
            std::uint64_t const number = first + std::uint64_t{token} * G::tokens + other;
            auto const words = random.words(number / 4);
            u32 const low = number % 2 == 0 ? words[0] : words[1], high = number % 2 == 0 ? words[2] : words[3];
            return (number / 2 % 2 == 0 ? low : high) >= threshold ? scale : N(0);
        }
    };

    TRIREME_HOST_DEVICE head of_head(u32 sample, u32 number) const {
        staged_shard const& s = *about;
        return {random_stream(s.seed, random_purpose::dropout, static_cast<u32>(s.step), layer,
                              static_cast<std::uint16_t>(s.shard)),
                G::first_weight(s.first + before + sample, number, 0), threshold, scale};
    }
};

/// 1 / sqrt(head)
template<class G, class A>
accumulate_t<A> attention_scale() noexcept {
    return accumulate_t<A>(1) / std::sqrt(static_cast<accumulate_t<A>>(G::head));
}

/// A kernel's draw, if it has one, says what its programs drop of the weights of the samples from `before` on.
template<class G, class A, class Stream>
weights_kept drops_of(block_kernels<Stream> const&, std::size_t) noexcept {
    return {};
}
template<class G, class A, class Stream, class T>
weights_drawn<G, accumulate_t<A>> drops_of(block_kernels<Stream> const& k, std::size_t before,
                                           dropout_draw<T> const& draw) noexcept {
    return {k.shard(), draw.layer, draw.threshold, static_cast<accumulate_t<A>>(draw.scale), before};
}

} // namespace trireme::blocks
