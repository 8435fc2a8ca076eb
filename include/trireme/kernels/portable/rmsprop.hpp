// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/rmsprop_numbers.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

// As for SGD, a weight's new bits do not depend on its place in the array.

/// v = smoothing * v + (1 - smoothing) * d * d, s = d / (sqrt(v) + epsilon), d = g + decay * w; n values. Then
/// w -= rate * s, or, with momentum, b = momentum * b + s, w -= rate * b. The velocity b is touched only then.
/// Source: Tieleman and Hinton, lecture 6.5 of "Neural networks for machine learning", 2012; PyTorch's RMSprop.
template<bool Momentum, class T>
TRIREME_NOINLINE void rmsprop_update(portable, T* w, T* square, T* velocity, T const* g, std::size_t n,
                                     rmsprop_numbers<T> k) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for_registers<vector>(n, [=](std::size_t i, auto count) {
        auto const weight = vector::load(w + i, count);
        auto const d = multiply_add(vector::all(k.decay), weight, vector::load(g + i, count));
        auto const v = multiply_add(vector::all(k.smoothing), vector::load(square + i, count),
                                    vector::all(1 - k.smoothing) * d * d);
        v.store(square + i, count);
        auto step = d / (square_root(v) + vector::all(k.epsilon));
        if constexpr (Momentum) {
            step = multiply_add(vector::all(k.momentum), vector::load(velocity + i, count), step);
            step.store(velocity + i, count);
        }
        multiply_add(vector::all(-k.rate), step, weight).store(w + i, count);
    });
}

} // namespace trireme::inline TRIREME_ISA
