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

// A fully connected layer over the rows of one sample, its tokens: matrix products.

namespace trireme::inline TRIREME_ISA {

/// y = x w^T + b. x: Rows x In, w: Out x In, b: Out, y: Rows x Out. Cost: a transposed copy of w, a block at a time.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1 && G::rows > 1)
TRIREME_NOINLINE void linear_forward(portable, T const* x, T const* w, T const* b, T* y) noexcept {
    constexpr std::size_t width = full_register<T>, most_terms = 256;
    constexpr std::size_t block = std::min(4 * width, (G::outputs + width - 1) / width * width);
    if constexpr (G::bias)
        for (std::size_t r = 0; r < G::rows; ++r) copy_numbers<G::outputs>(b, y + r * G::outputs);
    else
        std::fill_n(y, G::rows * G::outputs, T(0));
    alignas(64) T weights[block * std::min(most_terms, G::inputs)]; // [input][output]
    for (std::size_t i = 0; i < G::inputs; i += most_terms) {
        auto const terms = std::min(most_terms, G::inputs - i);
        for_blocks<0, G::outputs, block>([&]<std::size_t Outputs>(block_length<Outputs>, std::size_t o) {
            detail::transposed_copy<block, G::inputs>(w + o * G::inputs + i, Outputs, terms, weights);
            constexpr detail::product_strides strides{G::inputs, 1, block, G::outputs};
            detail::product_of_rows<Outputs, strides, detail::into::add>(x + i, weights, G::rows, terms, y + o);
        });
    }
}

/// dx = dy w; overwrites dx.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1 && G::rows > 1)
TRIREME_NOINLINE void linear_backward_input(portable, T const* w, T const* dy, T* dx) noexcept {
    constexpr detail::product_strides strides{G::outputs, 1, G::inputs, G::inputs};
    detail::product_of_rows<G::inputs, strides, detail::into::overwrite>(dy, w, G::rows, G::outputs, dx);
}

/// dw += dy^T x, and db += the rows of dy.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1 && G::rows > 1)
TRIREME_NOINLINE void linear_backward_weights(portable, T const* x, T const* dy, T* dw, T* db) noexcept {
    constexpr detail::product_strides strides{1, G::outputs, G::inputs, G::inputs};
    detail::product_of_rows<G::inputs, strides, detail::into::add>(dy, x, G::outputs, G::rows, dw);
    if constexpr (G::bias)
        for (std::size_t r = 0; r < G::rows; ++r) add_numbers<G::outputs>(dy + r * G::outputs, db);
}

} // namespace trireme::inline TRIREME_ISA
