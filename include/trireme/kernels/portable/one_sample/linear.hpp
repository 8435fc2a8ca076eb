// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/one_sample/matrix.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

// One sample: registers run over inputs. Every weight is used once, so the cost is reading them.

/// y = w x + b. x: In, w: Out x In, b: Out, y: Out.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1 && G::rows == 1)
TRIREME_NOINLINE void linear_forward(portable, T const* x, T const* w, T const* b, T* y) noexcept {
    detail::matrix_times_vector<G::outputs, G::inputs>(w, x, [b](std::size_t o) { return G::bias_of(b, o); }, y);
}

/// dx = w^T dy; overwrites dx.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1 && G::rows == 1)
TRIREME_NOINLINE void linear_backward_input(portable, T const* w, T const* dy, T* dx) noexcept {
    constexpr detail::product_strides strides{0, 1, G::inputs, 0};
    detail::matrix_product<1, G::inputs, strides, detail::into::overwrite>(dy, w, G::outputs,
                                                                           static_cast<T const*>(nullptr), dx);
}

/// dw += dy x^T and db += dy.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1 && G::rows == 1)
TRIREME_NOINLINE void linear_backward_weights(portable, T const* x, T const* dy, T* dw, T* db) noexcept {
    constexpr detail::product_strides strides{1, 0, 0, G::inputs};
    detail::matrix_product<G::outputs, G::inputs, strides, detail::into::add>(dy, x, 1, static_cast<T const*>(nullptr),
                                                                              dw);
    if constexpr (G::bias)
        for (std::size_t o = 0; o < G::outputs; ++o) db[o] += dy[o];
}

} // namespace trireme::inline TRIREME_ISA
