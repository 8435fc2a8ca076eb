// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/adagrad_numbers.hpp>
#include <trireme/kernels/reference/policy.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace trireme::inline TRIREME_ISA {

/// Adagrad's update as PyTorch has it, value by value: see the portable one.
template<class T>
TRIREME_NOINLINE void adagrad_update(reference, T* w, T* squares, T const* g, std::size_t n, adagrad_numbers<T> k,
                                     std::uint64_t made) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
        T const d = g[i] + k.decay * w[i];
        squares[i] += d * d;
        T const rate = k.rate / (1 + static_cast<T>(made) * k.rate_decay);
        w[i] -= rate * d / (std::sqrt(k.initial + squares[i]) + k.epsilon);
    }
}

} // namespace trireme::inline TRIREME_ISA
