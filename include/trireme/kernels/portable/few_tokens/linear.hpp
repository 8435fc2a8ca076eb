// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/one_sample/linear.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/portable/tokens/linear.hpp>
#include <trireme/kernels/portable/tokens/matrix.hpp>

#include <algorithm>
#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

// A fully connected layer over the rows of some samples together: the products of tokens/linear.hpp, whose number of
// rows is known at run time. One row alone is such a product, too: its bits are those of the row among others.

namespace trireme::inline TRIREME_ISA {

/// y = x w^T + b. x: Rows x In of each sample, w: Out x In, b: Out, y: Rows x Out of each.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void linear_forward(portable_together k, T const* x, T const* w, T const* b, T* y) noexcept {
    constexpr detail::product_strides strides{G::inputs, 1, G::inputs, G::outputs};
    detail::product_by_panels<G::outputs, G::inputs, true, strides, detail::right_factor::rows_of_columns,
                              detail::into::overwrite>(x, w, k.together * G::rows, G::inputs, y, G::bias ? b : nullptr);
}

/// dx = dy w; overwrites dx.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void linear_backward_input(portable_together k, T const* w, T const* dy, T* dx) noexcept {
    constexpr detail::product_strides strides{G::outputs, 1, G::inputs, G::inputs};
    detail::product_by_panels<G::inputs, G::outputs, false, strides, detail::right_factor::rows_of_terms,
                              detail::into::overwrite>(dy, w, k.together * G::rows, G::outputs, dx);
}

/// dw += dy^T x, and db += the rows of dy.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void linear_backward_weights(portable_together k, T const* x, T const* dy, T* dw, T* db) noexcept {
    auto const rows = k.together * G::rows;
    constexpr detail::product_strides strides{1, G::outputs, G::inputs, G::inputs};
    for (std::size_t r = 0; r < rows; r += detail::panel_terms)
        detail::product_by_panels<G::inputs, detail::panel_terms, (G::outputs >= detail::rows_for_copy), strides,
                                  detail::right_factor::rows_of_terms, detail::into::add>(
            dy + r * G::outputs, x + r * G::inputs, G::outputs, std::min(detail::panel_terms, rows - r), dw);
    if constexpr (G::bias)
        for_blocks<0, G::outputs, 8 * full_register<T>>([=]<std::size_t Outputs>(block_length<Outputs>, std::size_t o) {
            detail::add_columns<Outputs, G::outputs>(dy + o, rows, db + o);
        });
}

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
