// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/reference/policy.hpp>
#include <trireme/kernels/sgd_numbers.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// w -= rate * d, d = g + decay * w; n values.
template<class T>
TRIREME_NOINLINE void sgd_update(reference, T* w, T const* g, std::size_t n, sgd_numbers<T> k) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        T const d = g[i] + k.decay * w[i];
        w[i] -= k.rate * d;
    }
}

/// v = momentum * v + d, w -= k.rate * v, d = g + decay * w; n values.
template<class T>
TRIREME_NOINLINE void sgd_momentum_update(reference, T* w, T* velocity, T const* g, std::size_t n,
                                          sgd_numbers<T> k) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        T const d = g[i] + k.decay * w[i];
        velocity[i] = k.momentum * velocity[i] + d;
        w[i] -= k.rate * velocity[i];
    }
}

/// v = momentum * v + d, w -= k.rate * (d + momentum * v), d = g + decay * w; n values.
/// Source: PyTorch's torch.optim.SGD(nesterov=True), which is Sutskever et al. 2013 in shifted variables.
template<class T>
TRIREME_NOINLINE void sgd_nesterov_update(reference, T* w, T* velocity, T const* g, std::size_t n,
                                          sgd_numbers<T> k) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        T const d = g[i] + k.decay * w[i];
        velocity[i] = k.momentum * velocity[i] + d;
        w[i] -= k.rate * (d + k.momentum * velocity[i]);
    }
}

} // namespace trireme::inline TRIREME_ISA
