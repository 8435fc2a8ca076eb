// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/few_tokens/linear.hpp>
#include <trireme/kernels/portable/narrow/linear.hpp>
#include <trireme/kernels/portable/one_sample/linear.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/portable/tokens/linear.hpp>

#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

namespace trireme::detail::inline TRIREME_ISA {

/// dw[..][i..] += dy x^T for Count inputs, one or two registers of them. Where the last register has room, one more
/// input that is always 1 makes db.
template<class G, std::size_t Lanes, std::size_t Count, class T>
inline void linear_backward_weights_strip(T const* x, T const* dy, T* dw, T* db, std::size_t i) noexcept {
    constexpr std::size_t width = full_register<T>, registers = (Count + width - 1) / width;
    constexpr std::size_t last = Count - (registers - 1) * width; // numbers in the last register
    using vector = lane_vector<T, width>;
    T inputs[Lanes][registers * width]; // [lane][input], ones behind the last input
    for (std::size_t k = 0; k < registers * width; k += width)
        if constexpr (Lanes == width) {
            vector rows[width];
#pragma GCC unroll 16
            for (std::size_t r = 0; r < width; ++r)
                rows[r] = k + r < Count ? vector::load(x + (i + k + r) * Lanes) : vector::all(1);
            transpose(rows);
#pragma GCC unroll 16
            for (std::size_t lane = 0; lane < width; ++lane) rows[lane].store(inputs[lane] + k);
        } else {
            for (std::size_t lane = 0; lane < Lanes; ++lane)
                for (std::size_t r = 0; r < width; ++r)
                    inputs[lane][k + r] = k + r < Count ? x[(i + k + r) * Lanes + lane] : T{1};
        }
    for_blocks<0, G::outputs, accumulators / 2>([&]<std::size_t Outputs>(block_length<Outputs>, std::size_t o) {
        vector sum[Outputs][registers];
#pragma GCC unroll 32
        for (std::size_t j = 0; j < Outputs; ++j)
#pragma GCC unroll 2
            for (std::size_t r = 0; r < registers; ++r) sum[j][r] = vector::all(0);
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            vector input[registers];
#pragma GCC unroll 2
            for (std::size_t r = 0; r < registers; ++r) input[r] = vector::load(inputs[lane] + r * width);
#pragma GCC unroll 32
            for (std::size_t j = 0; j < Outputs; ++j) {
                auto const gradient = vector::all(dy[(o + j) * Lanes + lane]);
#pragma GCC unroll 2
                for (std::size_t r = 0; r < registers; ++r) sum[j][r] = multiply_add(gradient, input[r], sum[j][r]);
            }
        }
#pragma GCC unroll 32
        for (std::size_t j = 0; j < Outputs; ++j)
#pragma GCC unroll 2
            for (std::size_t r = 0; r < registers; ++r) {
                T* const to = dw + (o + j) * G::inputs + i + r * width;
                if (r + 1 < registers || last == width)
                    (vector::load(to) + sum[j][r]).store(to);
                else if constexpr (last < width) {
                    T sums[width];
                    sum[j][r].store(sums);
                    add_numbers<last>(sums, to);
                    if constexpr (G::bias) db[o + j] += sums[last];
                }
            }
    });
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// True if these kernels take narrow granules: inputs are whole groups, and fill eight of them.
template<class G, std::size_t Lanes, class T>
constexpr bool linear_takes_narrow(portable) noexcept {
    return Lanes >= 8 && Lanes == full_register<T> && G::rows == 1 && G::inputs % 4 == 0 && G::inputs >= 8 * 4;
}

/// y = w x + b. x: In, w: Out x In, b: Out, y: Out; x and y times Lanes. A block of outputs is summed at a time.
template<class G, std::size_t Lanes, class T>
    requires(Lanes > 1 && G::rows == 1)
TRIREME_NOINLINE void linear_forward([[maybe_unused]] portable policy, T const* x, T const* w, T const* b,
                                     T* y) noexcept {
    if constexpr (linear_takes_narrow<G, Lanes, T>(portable{}))
        if (policy.narrow != 0)
            return policy.narrow == Lanes / 2 ? detail::narrow_linear_forward<2>(x, w, b, y, G::inputs, G::outputs)
                                              : detail::narrow_linear_forward<4>(x, w, b, y, G::inputs, G::outputs);
    constexpr std::size_t width = register_lanes<T, Lanes>;
    using vector = lane_vector<T, width>;
    for (std::size_t lane = 0; lane < Lanes; lane += width)
        for_blocks<0, G::outputs, accumulators>([&]<std::size_t Outputs>(block_length<Outputs>, std::size_t o) {
            vector sum[Outputs];
#pragma GCC unroll 32
            for (std::size_t k = 0; k < Outputs; ++k) sum[k] = vector::all(G::bias_of(b, o + k));
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
    requires(Lanes > 1 && G::rows == 1)
TRIREME_NOINLINE void linear_backward_input([[maybe_unused]] portable policy, T const* w, T const* dy, T* dx) noexcept {
    if constexpr (linear_takes_narrow<G, Lanes, T>(portable{}))
        if (policy.narrow != 0)
            return policy.narrow == Lanes / 2
                       ? detail::narrow_linear_backward_input<2>(w, dy, dx, G::inputs, G::outputs)
                       : detail::narrow_linear_backward_input<4>(w, dy, dx, G::inputs, G::outputs);
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

/// dw += dy x^T and db += dy, summed over the lanes. Registers run over inputs and not over lanes: one sample at a
/// time, no weight needs a sum across a register. Cost: a transposed copy of x, a strip at a time.
template<class G, std::size_t Lanes, class T>
    requires(Lanes > 1 && G::rows == 1)
TRIREME_NOINLINE void linear_backward_weights([[maybe_unused]] portable policy, T const* x, T const* dy, T* dw,
                                              T* db) noexcept {
    if constexpr (linear_takes_narrow<G, Lanes, T>(portable{}))
        if (policy.narrow != 0)
            return detail::narrow_linear_backward_weights(x, dy, dw, db, G::inputs, G::outputs, policy.narrow);
    constexpr std::size_t strip = 2 * full_register<T>, rest = G::inputs % strip;
    std::size_t i = 0;
    for (; i + strip <= G::inputs; i += strip) detail::linear_backward_weights_strip<G, Lanes, strip>(x, dy, dw, db, i);
    if constexpr (rest != 0) detail::linear_backward_weights_strip<G, Lanes, rest>(x, dy, dw, db, i);
    if constexpr (G::bias && rest % full_register<T> == 0) { // no strip had room for db
        constexpr std::size_t width = register_lanes<T, Lanes>;
        using vector = lane_vector<T, width>;
        for (std::size_t o = 0; o < G::outputs; ++o) {
            auto sum = vector::load(dy + o * Lanes);
            for (std::size_t lane = width; lane < Lanes; lane += width) sum = sum + vector::load(dy + o * Lanes + lane);
            db[o] += sum.sum();
        }
    }
}

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
