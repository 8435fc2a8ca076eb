// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/sgd_numbers.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

// A weight's new bits do not depend on its place in the array, so that a shard of it may be updated anywhere.

/// w -= rate * d, d = g + decay * w; n values.
template<class T>
TRIREME_NOINLINE void sgd_update(portable, T* w, T const* g, std::size_t n, sgd_numbers<T> k) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for_registers<vector>(n, [=](std::size_t i, auto count) {
        auto const weight = vector::load(w + i, count);
        auto const d = multiply_add(vector::all(k.decay), weight, vector::load(g + i, count));
        multiply_add(vector::all(-k.rate), d, weight).store(w + i, count);
    });
}

/// v = momentum * v + d, w -= rate * v, d = g + decay * w; n values.
template<class T>
TRIREME_NOINLINE void sgd_momentum_update(portable, T* w, T* velocity, T const* g, std::size_t n,
                                          sgd_numbers<T> k) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for_registers<vector>(n, [=](std::size_t i, auto count) {
        auto const weight = vector::load(w + i, count);
        auto const d = multiply_add(vector::all(k.decay), weight, vector::load(g + i, count));
        auto const v = multiply_add(vector::all(k.momentum), vector::load(velocity + i, count), d);
        v.store(velocity + i, count);
        multiply_add(vector::all(-k.rate), v, weight).store(w + i, count);
    });
}

/// v = momentum * v + d, w -= rate * (d + momentum * v), d = g + decay * w; n values.
/// Source: PyTorch's torch.optim.SGD(nesterov=True), which is Sutskever et al. 2013 in shifted variables.
template<class T>
TRIREME_NOINLINE void sgd_nesterov_update(portable, T* w, T* velocity, T const* g, std::size_t n,
                                          sgd_numbers<T> k) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for_registers<vector>(n, [=](std::size_t i, auto count) {
        auto const weight = vector::load(w + i, count);
        auto const d = multiply_add(vector::all(k.decay), weight, vector::load(g + i, count));
        auto const v = multiply_add(vector::all(k.momentum), vector::load(velocity + i, count), d);
        v.store(velocity + i, count);
        auto const ahead = multiply_add(vector::all(k.momentum), v, d);
        multiply_add(vector::all(-k.rate), ahead, weight).store(w + i, count);
    });
}

} // namespace trireme::inline TRIREME_ISA
