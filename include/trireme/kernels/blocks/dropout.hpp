// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/philox.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/samples.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/dropout_draw.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme::blocks {

/// The values that share four words of random bits. All samples' values are numbered through, so that words do not end
/// with a sample; the first sample's first value may stand anywhere in its word.
template<std::size_t Size, class T>
struct dropout_of_four {
    T const* from;
    T* to;
    staged_shard const* about;
    u32 layer, threshold;
    order_channels_last order;
    accumulate_t<T> scale;
    std::size_t values;

    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        staged_shard const s = *about;
        random_stream const random(s.seed, random_purpose::dropout, static_cast<u32>(s.step), layer,
                                   static_cast<std::uint16_t>(s.shard));
        std::uint64_t const begin = s.first * Size, word = begin / 4 + i;
        auto const bits = random.words(word);
        for (u32 k = 0; k < 4; ++k) {
            std::uint64_t const number = 4 * word + k - begin; // before the first one: beyond all
            if (number >= values) continue;
            std::size_t const at = order.place(number);
            accumulate_t<T> const kept = static_cast<accumulate_t<T>>(from[at]) * scale;
            to[at] = static_cast<T>(bits[k] >= threshold ? kept : accumulate_t<T>(0));
        }
    }
};

} // namespace trireme::blocks

namespace trireme {

/// y = x * scale where a value is not dropped, else 0; backward dx from dy alike. Seed, step, shard and the place of
/// the first sample are those of the staged shard. y may be x. Cost: 10 rounds of Philox per 4 values.
template<std::size_t Size, std::size_t, class Stream, class A, class T>
void dropout_forward(block_kernels<Stream> const& k, A const* x, dropout_draw<T> const& draw, A* y) {
    std::size_t const values = Size * k.samples(), words = values / 4 + 2;
    order_channels_last order; // as it is
    if (draw.last_channels > 1)
        order = {draw.last_channels, static_cast<std::uint32_t>(Size / draw.last_channels), values};
    if (values != 0)
        k.each(words, blocks::dropout_of_four<Size, A>{x, y, k.shard(), draw.layer, draw.threshold, order,
                                                       static_cast<accumulate_t<A>>(draw.scale), values});
}

} // namespace trireme
