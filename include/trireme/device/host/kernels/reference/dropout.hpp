// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/philox.hpp>
#include <trireme/device/host/kernels.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme::inline TRIREME_ISA {

/// to = from * scale where the value's random bits are at least `threshold`, else 0. Value i of a granule's sample
/// `lane` has the bits of number (first + lane) * Size + i. `to` may be `from`.
template<std::size_t Size, std::size_t Lanes, class T>
void keep_some(reference, T const* from, random_stream const& random, std::size_t first, std::uint32_t threshold,
               T scale, T* to) {
    for (std::size_t i = 0; i < Size; ++i)
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            bool const keep = random.bits((first + lane) * Size + i) >= threshold;
            to[i * Lanes + lane] = keep ? from[i * Lanes + lane] * scale : T(0);
        }
}

} // namespace trireme::inline TRIREME_ISA
