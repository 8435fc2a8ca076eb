// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/rmsprop_numbers.hpp>

#include <cmath>
#include <cstddef>

namespace trireme::blocks {

/// One weight's update. The velocity is touched only with momentum.
template<bool Momentum, class T>
struct rmsprop_step {
    using number = accumulate_t<T>;
    T *w, *square, *velocity;
    T const* g;
    rmsprop_numbers<number> const* numbers;

    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        rmsprop_numbers<number> const k = *numbers;
        auto const weight = static_cast<number>(w[i]);
        number const d = static_cast<number>(g[i]) + k.decay * weight;
        number const v = k.smoothing * static_cast<number>(square[i]) + (1 - k.smoothing) * d * d;
        square[i] = static_cast<T>(v);
        number step = d / (std::sqrt(v) + k.epsilon);
        if constexpr (Momentum) {
            step += k.momentum * static_cast<number>(velocity[i]);
            velocity[i] = static_cast<T>(step);
        }
        w[i] = static_cast<T>(weight - k.rate * step);
    }
};

} // namespace trireme::blocks

namespace trireme {

/// RMSprop's update of n values, whatever the number of samples: see the host's. The numbers are read when it is done,
/// from the accelerator's memory.
template<bool Momentum, class Stream, class T>
void rmsprop_update(block_kernels<Stream> const& k, T* w, T* square, T* velocity, T const* g, std::size_t n,
                    rmsprop_numbers<accumulate_t<T>> const* numbers) {
    k.each(n, blocks::rmsprop_step<Momentum, T>{w, square, velocity, g, numbers});
}

} // namespace trireme
