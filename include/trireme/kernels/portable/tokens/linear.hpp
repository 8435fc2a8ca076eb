// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/portable/tokens/matrix.hpp>

#include <algorithm>
#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

// A fully connected layer over the rows of one sample, its tokens: matrix products.

namespace trireme::detail::inline TRIREME_ISA {

/// Adds N columns of `rows` rows of Step numbers to `sums`, row by row; the sums of all columns grow side by side.
template<std::size_t N, std::size_t Step, class T>
[[gnu::always_inline]] inline void add_columns(T const* x, std::size_t rows, T* sums) noexcept {
    constexpr std::size_t width = full_register<T>, registers = (N + width - 1) / width;
    using vector = lane_vector<T, width>;
    vector sum[registers];
#pragma GCC unroll 8
    for (std::size_t k = 0; k < registers; ++k) sum[k] = vector::load(sums + k * width, N - k * width);
    for (std::size_t r = 0; r < rows; ++r, x += Step)
#pragma GCC unroll 8
        for (std::size_t k = 0; k < registers; ++k) sum[k] = sum[k] + vector::load(x + k * width, N - k * width);
#pragma GCC unroll 8
    for (std::size_t k = 0; k < registers; ++k) sum[k].store(sums + k * width, N - k * width);
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = x w^T + b. x: Rows x In, w: Out x In, b: Out, y: Rows x Out. Cost: a transposed copy of w, a block at a time.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1 && G::rows > 1)
TRIREME_NOINLINE void linear_forward(portable, T const* x, T const* w, T const* b, T* y) noexcept {
    constexpr detail::product_strides strides{G::inputs, 1, G::inputs, G::outputs};
    detail::product_by_panels<G::outputs, G::inputs, true, strides, detail::right_factor::rows_of_columns,
                              detail::into::overwrite>(x, w, block_length<G::rows>{}, block_length<G::inputs>{}, y,
                                                       G::bias ? b : nullptr);
}

/// dx = dy w; overwrites dx.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1 && G::rows > 1)
TRIREME_NOINLINE void linear_backward_input(portable, T const* w, T const* dy, T* dx) noexcept {
    constexpr detail::product_strides strides{G::outputs, 1, G::inputs, G::inputs};
    detail::product_by_panels<G::inputs, G::outputs, (G::rows >= detail::rows_for_copy), strides,
                              detail::right_factor::rows_of_terms, detail::into::overwrite>(
        dy, w, block_length<G::rows>{}, block_length<G::outputs>{}, dx);
}

/// dw += dy^T x, and db += the rows of dy.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1 && G::rows > 1)
TRIREME_NOINLINE void linear_backward_weights(portable, T const* x, T const* dy, T* dw, T* db) noexcept {
    constexpr detail::product_strides strides{1, G::outputs, G::inputs, G::inputs};
    detail::product_by_panels<G::inputs, G::rows, (G::outputs >= detail::rows_for_copy), strides,
                              detail::right_factor::rows_of_terms, detail::into::add>(dy, x, block_length<G::outputs>{},
                                                                                      block_length<G::rows>{}, dw);
    if constexpr (G::bias)
        for_blocks<0, G::outputs, 8 * full_register<T>>([=]<std::size_t Outputs>(block_length<Outputs>, std::size_t o) {
            detail::add_columns<Outputs, G::outputs>(dy + o, G::rows, db + o);
        });
}

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
