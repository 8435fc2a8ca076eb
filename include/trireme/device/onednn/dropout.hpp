// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/philox.hpp>
#include <trireme/device/onednn/kernels.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme::inline TRIREME_ISA {

/// to = from * scale where the value's random bits are at least `threshold`, else 0; `to` may be `from`. Values are
/// numbered channel by channel, as in the formulas and wherever else they are drawn, though they lie channels last:
/// value i of sample n has the bits of number (first + n) * Size + i. Cost: 10 rounds of Philox per 4 values.
template<std::size_t Size, std::size_t, class A>
TRIREME_NOINLINE void keep_some(onednn_kernels<A> const& k, A const* from, random_stream const& random,
                                std::size_t first, std::uint32_t threshold, float scale, A* to) {
    if (!k.computing()) return;
    auto const& lies_as = k.state().shapes(k.row()).viewed;
    auto const channels = lies_as.extent[0], positions = Size / channels;
    for (std::size_t n = 0; n < k.samples(); ++n) {
        std::size_t c = 0, at = 0;
        for (std::size_t i = 0; i < Size;) {
            auto const number = (first + n) * Size + i;
            auto const words = random.words(number / 4);
            for (auto word = number % 4; word < 4 && i < Size; ++word, ++i) {
                auto const place = n * Size + at * channels + c;
                to[place] =
                    words[word] >= threshold ? static_cast<A>(static_cast<float>(from[place]) * scale) : A(0.0f);
                if (++at == positions) {
                    at = 0;
                    ++c;
                }
            }
        }
    }
}

} // namespace trireme::inline TRIREME_ISA
