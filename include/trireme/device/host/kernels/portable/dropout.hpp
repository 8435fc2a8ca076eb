// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/philox.hpp>
#include <trireme/device/host/kernels.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace trireme::inline TRIREME_ISA {

/// to = from * scale where the value's random bits are at least `threshold`, else 0. Value i of a granule's sample
/// `lane` has the bits of number (first + lane) * Size + i. `to` may be `from`. Cost: 10 rounds of Philox per 4 values.
template<std::size_t Size, std::size_t Lanes, class T>
TRIREME_NOINLINE void keep_some(portable, T const* from, random_stream const& random, std::size_t first,
                                std::uint32_t threshold, T scale, T* to) noexcept {
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        auto const begin = (first + lane) * Size;
        for (std::size_t i = 0; i < Size;) {
            auto const words = random.words((begin + i) / 4);
            auto const skip = (begin + i) % 4, end = std::min(Size, i + 4 - skip);
            for (auto k = skip; i < end; ++i, ++k)
                to[i * Lanes + lane] = words[k] >= threshold ? from[i * Lanes + lane] * scale : T(0);
        }
    }
}

} // namespace trireme::inline TRIREME_ISA
