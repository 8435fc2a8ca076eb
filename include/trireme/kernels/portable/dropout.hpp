// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/dropout_draw.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <algorithm>
#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// y = x * scale where a value is not dropped, else 0; backward dx from dy alike. y may be x. Cost: 10 rounds of Philox
/// per 4 values.
template<std::size_t Size, std::size_t Lanes, class T>
TRIREME_NOINLINE void dropout_forward(portable, T const* x, dropout_draw<T> const& draw, T* y) noexcept {
    auto const random = draw.random();
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        auto const begin = (draw.granule.first + lane) * Size;
        for (std::size_t i = 0; i < Size;) {
            auto const words = random.words((begin + i) / 4);
            auto const skip = (begin + i) % 4, end = std::min(Size, i + 4 - skip);
            for (auto k = skip; i < end; ++i, ++k)
                y[i * Lanes + lane] = words[k] >= draw.threshold ? x[i * Lanes + lane] * draw.scale : T(0);
        }
    }
}

} // namespace trireme::inline TRIREME_ISA
