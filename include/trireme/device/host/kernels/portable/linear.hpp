// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/geometry.hpp>
#include <trireme/device/host/kernels.hpp>
#include <trireme/device/host/kernels/portable/one_sample/linear.hpp>
#include <trireme/device/host/lanes.hpp>

#include <algorithm>
#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

namespace trireme::inline TRIREME_ISA {

/// y = w x + b. x: In, w: Out x In, b: Out, y: Out; x and y times Lanes. A block of outputs is summed at a time.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void linear_forward(portable, T const* x, T const* w, T const* b, T* y) noexcept {
    constexpr std::size_t width = register_lanes<T, Lanes>;
    using vector = lane_vector<T, width>;
    for (std::size_t lane = 0; lane < Lanes; lane += width)
        for_blocks<0, G::outputs, accumulators>([&]<std::size_t Outputs>(block_length<Outputs>, std::size_t o) {
            vector sum[Outputs];
#pragma GCC unroll 32
            for (std::size_t k = 0; k < Outputs; ++k) sum[k] = vector::all(b[o + k]);
            for (std::size_t i = 0; i < G::inputs; ++i) {
                auto const input = vector::load(x + i * Lanes + lane);
#pragma GCC unroll 32
                for (std::size_t k = 0; k < Outputs; ++k)
                    sum[k] = multiply_add(vector::all(w[(o + k) * G::inputs + i]), input, sum[k]);
            }
#pragma GCC unroll 32
            for (std::size_t k = 0; k < Outputs; ++k) sum[k].store(y + (o + k) * Lanes + lane);
        });
}

/// dx = w^T dy; overwrites dx. A block of inputs is summed at a time.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void linear_backward_input(portable, T const* w, T const* dy, T* dx) noexcept {
    constexpr std::size_t width = register_lanes<T, Lanes>;
    using vector = lane_vector<T, width>;
    for (std::size_t lane = 0; lane < Lanes; lane += width)
        for_blocks<0, G::inputs, accumulators>([&]<std::size_t Inputs>(block_length<Inputs>, std::size_t i) {
            vector sum[Inputs];
#pragma GCC unroll 32
            for (std::size_t k = 0; k < Inputs; ++k) sum[k] = vector::all(0);
            for (std::size_t o = 0; o < G::outputs; ++o) {
                auto const gradient = vector::load(dy + o * Lanes + lane);
#pragma GCC unroll 32
                for (std::size_t k = 0; k < Inputs; ++k)
                    sum[k] = multiply_add(vector::all(w[o * G::inputs + i + k]), gradient, sum[k]);
            }
#pragma GCC unroll 32
            for (std::size_t k = 0; k < Inputs; ++k) sum[k].store(dx + (i + k) * Lanes + lane);
        });
}

/// dw += dy x^T and db += dy, summed over the lanes in their order. Registers run over inputs and not over lanes: one
/// sample at a time, no weight needs a sum across a register. Cost: a transposed copy of x, a strip at a time.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void linear_backward_weights(portable, T const* x, T const* dy, T* dw, T* db) noexcept {
    constexpr std::size_t width = full_register<T>, strip = 2 * width;
    using vector = lane_vector<T, width>;
    for (std::size_t o = 0; o < G::outputs; ++o) {
        T sum = 0;
        for (std::size_t lane = 0; lane < Lanes; ++lane) sum += dy[o * Lanes + lane];
        db[o] += sum;
    }
    for (std::size_t i = 0; i < G::inputs; i += strip) {
        std::size_t const count = std::min(strip, G::inputs - i);
        T inputs[Lanes][strip] = {}; // [lane][input]
        for (std::size_t k = 0; k < count; ++k)
            for (std::size_t lane = 0; lane < Lanes; ++lane) inputs[lane][k] = x[(i + k) * Lanes + lane];
        for_blocks<0, G::outputs, accumulators / 2>([&]<std::size_t Outputs>(block_length<Outputs>, std::size_t o) {
            vector sum[Outputs][2];
#pragma GCC unroll 32
            for (std::size_t k = 0; k < Outputs; ++k) sum[k][0] = sum[k][1] = vector::all(0);
            for (std::size_t lane = 0; lane < Lanes; ++lane) {
                auto const first = vector::load(inputs[lane]), second = vector::load(inputs[lane] + width);
#pragma GCC unroll 32
                for (std::size_t k = 0; k < Outputs; ++k) {
                    auto const gradient = vector::all(dy[(o + k) * Lanes + lane]);
                    sum[k][0] = multiply_add(gradient, first, sum[k][0]);
                    sum[k][1] = multiply_add(gradient, second, sum[k][1]);
                }
            }
            T* row = dw + o * G::inputs + i;
            if (count == strip) {
#pragma GCC unroll 32
                for (std::size_t k = 0; k < Outputs; ++k, row += G::inputs) {
                    (vector::load(row) + sum[k][0]).store(row);
                    (vector::load(row + width) + sum[k][1]).store(row + width);
                }
            } else {
                T sums[Outputs][strip];
#pragma GCC unroll 32
                for (std::size_t k = 0; k < Outputs; ++k) {
                    sum[k][0].store(sums[k]);
                    sum[k][1].store(sums[k] + width);
                }
                for (std::size_t k = 0; k < Outputs; ++k, row += G::inputs)
                    for (std::size_t j = 0; j < count; ++j) row[j] += sums[k][j];
            }
        });
    }
}

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
