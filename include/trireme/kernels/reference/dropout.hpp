// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/dropout_draw.hpp>
#include <trireme/kernels/reference/policy.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// y = x * scale where a value is not dropped, else 0; backward dx from dy alike. y may be x.
template<std::size_t Size, std::size_t Lanes, class T>
void dropout_forward(reference, T const* x, dropout_draw<T> const& draw, T* y) {
    auto const random = draw.random();
    for (std::size_t i = 0; i < Size; ++i)
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            bool const keep = random.bits((draw.granule.first + lane) * Size + i) >= draw.threshold;
            y[i * Lanes + lane] = keep ? x[i * Lanes + lane] * draw.scale : T(0);
        }
}

} // namespace trireme::inline TRIREME_ISA
