// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/philox.hpp>
#include <trireme/device/blocks/kernels.hpp>
#include <trireme/device/blocks/samples.hpp>
#include <trireme/device/blocks/support.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trireme::blocks {

/// The values that share four words of random bits. All samples' values are numbered through, so that words do not end
/// with a sample; the first sample's first value may stand anywhere in its word.
template<std::size_t Size, class T>
struct keep_some_of_four {
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

/// to = from * scale where the value's random bits are at least `threshold`, else 0. Value i of the shard's n-th sample
/// has the bits of number n * Size + i of the stream that seed, step, shard and layer name, as on the host. Values of
/// `channels` that lie last are numbered as if those came first. `to` may be `from`. Cost: 10 rounds of Philox per 4
/// values.
template<std::size_t Size, class Stream, class T>
void keep_some(block_kernels<Stream> const& k, T const* from, std::uint32_t layer, std::uint32_t threshold,
               std::type_identity_t<accumulate_t<T>> scale, T* to, std::uint32_t channels = 1) {
    std::size_t const values = Size * k.samples(), words = values / 4 + 2;
    order_channels_last order; // as it is
    if (channels > 1) order = {channels, static_cast<std::uint32_t>(Size / channels), values};
    if (values != 0)
        k.each(words, blocks::keep_some_of_four<Size, T>{from, to, k.shard(), layer, threshold, order, scale, values});
}

} // namespace trireme
