// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/reference/policy.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// y = F(x), n values; y may be x.
template<class F, class T>
TRIREME_NOINLINE void activation_forward(reference, T const* x, T* y, std::size_t n) noexcept {
    for (std::size_t i = 0; i < n; ++i) y[i] = F::value(x[i]);
}

/// dx = dy * F'(x), n values, with x and y of the forward pass; dx may be dy.
template<class F, class T>
TRIREME_NOINLINE void activation_backward_input(reference, T const* x, T const* y, T const* dy, T* dx,
                                                std::size_t n) noexcept {
    for (std::size_t i = 0; i < n; ++i) dx[i] = dy[i] * F::slope(x[i], y[i]);
}

} // namespace trireme::inline TRIREME_ISA
