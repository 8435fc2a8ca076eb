// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/adagrad_numbers.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme::inline TRIREME_ISA {

// As for SGD, a weight's new bits do not depend on its place in the array.

/// v += d * d, w -= rate / (1 + made * rate_decay) * d / (sqrt(initial + v) + epsilon), d = g + decay * w; n values.
/// `made`: updates before this one. Source: Duchi, Hazan, Singer, "Adaptive subgradient methods", 2011; PyTorch's
/// Adagrad, whose sums begin at `initial`: here they begin at nothing, as the state of every optimizer does.
template<class T>
TRIREME_NOINLINE void adagrad_update(portable, T* w, T* squares, T const* g, std::size_t n, adagrad_numbers<T> k,
                                     std::uint64_t made) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    T const rate = adagrad_rate(k, made);
    for_registers<vector>(n, [=](std::size_t i, auto count) {
        auto const weight = vector::load(w + i, count);
        auto const d = multiply_add(vector::all(k.decay), weight, vector::load(g + i, count));
        auto const v = multiply_add(d, d, vector::load(squares + i, count));
        v.store(squares + i, count);
        auto const root = square_root(v + vector::all(k.initial)) + vector::all(k.epsilon);
        multiply_add(vector::all(-rate), d / root, weight).store(w + i, count);
    });
}

} // namespace trireme::inline TRIREME_ISA
