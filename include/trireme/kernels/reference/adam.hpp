// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/adam_numbers.hpp>
#include <trireme/kernels/reference/policy.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace trireme::inline TRIREME_ISA {

/// Adam's update as its paper has it, value by value: see the portable one.
template<bool Decoupled, class T>
TRIREME_NOINLINE void adam_update(reference, T* w, T* mean, T* square, T const* g, std::size_t n, adam_numbers<T> k,
                                  std::uint64_t made) noexcept {
    auto const t = static_cast<double>(made + 1); // in double, for most digits of the differences cancel
    auto const without = [t](T beta) { return static_cast<T>(1 - std::pow(static_cast<double>(beta), t)); };
    for (std::size_t i = 0; i < n; ++i) {
        T const d = Decoupled ? g[i] : g[i] + k.decay * w[i];
        if (Decoupled) w[i] -= k.rate * k.decay * w[i];
        mean[i] = k.beta1 * mean[i] + (1 - k.beta1) * d;
        square[i] = k.beta2 * square[i] + (1 - k.beta2) * d * d;
        T const m = mean[i] / without(k.beta1), v = square[i] / without(k.beta2);
        w[i] -= k.rate * m / (std::sqrt(v) + k.epsilon);
    }
}

} // namespace trireme::inline TRIREME_ISA
