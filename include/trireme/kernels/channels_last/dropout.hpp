// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/channels_last/policy.hpp>
#include <trireme/kernels/dropout_draw.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// y = x * scale where a value is not dropped, else 0; backward dx from dy alike. y may be x. Cost: 10 rounds of Philox
/// per 4 values.
template<std::size_t Size, std::size_t, channels_last_kernels K, class A, class T>
TRIREME_NOINLINE void dropout_forward(K const& k, A const* x, dropout_draw<T> const& draw, A* y) {
    if (!k.computing()) return;
    auto const random = draw.random();
    auto const& lies_as = k.state().shapes(k.row()).viewed;
    auto const channels = lies_as.extent[0], positions = Size / channels;
    for (std::size_t n = 0; n < k.samples(); ++n) {
        std::size_t c = 0, at = 0;
        for (std::size_t i = 0; i < Size;) {
            auto const number = (draw.granule.first + n) * Size + i;
            auto const words = random.words(number / 4);
            for (auto word = number % 4; word < 4 && i < Size; ++word, ++i) {
                auto const place = n * Size + at * channels + c;
                y[place] =
                    words[word] >= draw.threshold ? static_cast<A>(static_cast<T>(x[place]) * draw.scale) : A(T(0));
                if (++at == positions) {
                    at = 0;
                    ++c;
                }
            }
        }
    }
}

} // namespace trireme::inline TRIREME_ISA
