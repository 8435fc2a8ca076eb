// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/sgd_numbers.hpp>

#include <cstddef>

namespace trireme::blocks {

enum class sgd_rule { plain, momentum, nesterov };

/// One weight's update. The velocity is not touched by the plain rule.
template<sgd_rule Rule, class T>
struct sgd_step {
    using number = accumulate_t<T>;
    T *w, *velocity;
    T const* g;
    sgd_numbers<number> const* numbers;

    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        sgd_numbers<number> const k = *numbers;
        auto const weight = static_cast<number>(w[i]);
        number const d = static_cast<number>(g[i]) + k.decay * weight;
        number step = d;
        if constexpr (Rule != sgd_rule::plain) {
            number const v = k.momentum * static_cast<number>(velocity[i]) + d;
            velocity[i] = static_cast<T>(v);
            step = Rule == sgd_rule::momentum ? v : d + k.momentum * v;
        }
        w[i] = static_cast<T>(weight - k.rate * step);
    }
};

} // namespace trireme::blocks

namespace trireme {

// n values, whatever the number of samples. The numbers are read when the update is done, from the accelerator's
// memory.

/// w -= rate * d, d = g + decay * w.
template<class Stream, class T>
void sgd_update(block_kernels<Stream> const& k, T* w, T const* g, std::size_t n,
                sgd_numbers<accumulate_t<T>> const* numbers) {
    k.each(n, blocks::sgd_step<blocks::sgd_rule::plain, T>{w, nullptr, g, numbers});
}

/// v = momentum * v + d, w -= rate * v, d = g + decay * w.
template<class Stream, class T>
void sgd_momentum_update(block_kernels<Stream> const& k, T* w, T* velocity, T const* g, std::size_t n,
                         sgd_numbers<accumulate_t<T>> const* numbers) {
    k.each(n, blocks::sgd_step<blocks::sgd_rule::momentum, T>{w, velocity, g, numbers});
}

/// v = momentum * v + d, w -= rate * (d + momentum * v), d = g + decay * w.
template<class Stream, class T>
void sgd_nesterov_update(block_kernels<Stream> const& k, T* w, T* velocity, T const* g, std::size_t n,
                         sgd_numbers<accumulate_t<T>> const* numbers) {
    k.each(n, blocks::sgd_step<blocks::sgd_rule::nesterov, T>{w, velocity, g, numbers});
}

} // namespace trireme
