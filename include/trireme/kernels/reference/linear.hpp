// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/reference/policy.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// y = w x + b. x: Rows x In, w: Out x In, b: Out, y: Rows x Out; x and y times Lanes.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void linear_forward(reference, T const* x, T const* w, T const* b, T* y) noexcept {
    for (std::size_t lane = 0; lane < Lanes; ++lane)
        for (std::size_t r = 0; r < G::rows; ++r)
            for (std::size_t o = 0; o < G::outputs; ++o) {
                T sum = G::bias_of(b, o);
                for (std::size_t i = 0; i < G::inputs; ++i)
                    sum += w[o * G::inputs + i] * x[(r * G::inputs + i) * Lanes + lane];
                y[(r * G::outputs + o) * Lanes + lane] = sum;
            }
}

/// dx = w^T dy; overwrites dx.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void linear_backward_input(reference, T const* w, T const* dy, T* dx) noexcept {
    for (std::size_t lane = 0; lane < Lanes; ++lane)
        for (std::size_t r = 0; r < G::rows; ++r)
            for (std::size_t i = 0; i < G::inputs; ++i) {
                T sum = 0;
                for (std::size_t o = 0; o < G::outputs; ++o)
                    sum += w[o * G::inputs + i] * dy[(r * G::outputs + o) * Lanes + lane];
                dx[(r * G::inputs + i) * Lanes + lane] = sum;
            }
}

/// dw += dy x^T and db += dy, summed over rows and lanes.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void linear_backward_weights(reference, T const* x, T const* dy, T* dw, T* db) noexcept {
    for (std::size_t lane = 0; lane < Lanes; ++lane)
        for (std::size_t r = 0; r < G::rows; ++r)
            for (std::size_t o = 0; o < G::outputs; ++o) {
                T const gradient = dy[(r * G::outputs + o) * Lanes + lane];
                if constexpr (G::bias) db[o] += gradient;
                for (std::size_t i = 0; i < G::inputs; ++i)
                    dw[o * G::inputs + i] += gradient * x[(r * G::inputs + i) * Lanes + lane];
            }
}

} // namespace trireme::inline TRIREME_ISA
