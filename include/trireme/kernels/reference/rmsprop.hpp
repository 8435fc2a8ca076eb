// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/reference/policy.hpp>
#include <trireme/kernels/rmsprop_numbers.hpp>

#include <cmath>
#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// RMSprop's update as PyTorch has it, value by value: see the portable one.
template<bool Momentum, class T>
TRIREME_NOINLINE void rmsprop_update(reference, T* w, T* square, T* velocity, T const* g, std::size_t n,
                                     rmsprop_numbers<T> k) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        T const d = g[i] + k.decay * w[i];
        square[i] = k.smoothing * square[i] + (1 - k.smoothing) * d * d;
        T const step = d / (std::sqrt(square[i]) + k.epsilon);
        if (Momentum) velocity[i] = k.momentum * velocity[i] + step;
        w[i] -= k.rate * (Momentum ? velocity[i] : step);
    }
}

} // namespace trireme::inline TRIREME_ISA
