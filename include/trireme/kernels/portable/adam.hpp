// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/adam_numbers.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme::inline TRIREME_ISA {

// As for SGD, a weight's new bits do not depend on its place in the array.

/// m = beta1 * m + (1 - beta1) * d, v = beta2 * v + (1 - beta2) * d * d, w -= rate * m' / (sqrt(v') + epsilon) with the
/// corrected means m' and v'; n values. Weight decay: where it is decoupled, w -= rate * decay * w before that, and d
/// is the gradient; else d = g + decay * w. `made`: updates before this one. Source: Kingma and Ba, "Adam", 2015;
/// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019.
template<bool Decoupled, class T>
TRIREME_NOINLINE void adam_update(portable, T* w, T* mean, T* square, T const* g, std::size_t n, adam_numbers<T> k,
                                  std::uint64_t made) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    auto const corrected = adam_correction<T>::of(k, made);
    for_registers<vector>(n, [=](std::size_t i, auto count) {
        auto weight = vector::load(w + i, count);
        auto d = vector::load(g + i, count);
        if constexpr (Decoupled)
            weight = weight * vector::all(1 - k.rate * k.decay);
        else
            d = multiply_add(vector::all(k.decay), weight, d);
        auto const m = multiply_add(vector::all(k.beta1), vector::load(mean + i, count), vector::all(1 - k.beta1) * d);
        auto const v =
            multiply_add(vector::all(k.beta2), vector::load(square + i, count), vector::all(1 - k.beta2) * d * d);
        m.store(mean + i, count);
        v.store(square + i, count);
        auto const root = multiply_add(square_root(v), vector::all(corrected.root), vector::all(k.epsilon));
        multiply_add(vector::all(-corrected.step), m / root, weight).store(w + i, count);
    });
}

} // namespace trireme::inline TRIREME_ISA
