// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/adam_numbers.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace trireme::blocks {

/// One weight's update. Each thread makes the corrections anew; what that costs has not been measured.
template<bool Decoupled, class T>
struct adam_step {
    using number = accumulate_t<T>;
    T *w, *mean, *square;
    T const* g;
    adam_numbers<number> const* numbers;
    std::uint64_t const* made;

    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        adam_numbers<number> const k = *numbers;
        auto const corrected = adam_correction<number>::of(k, *made);
        auto weight = static_cast<number>(w[i]);
        auto d = static_cast<number>(g[i]);
        if constexpr (Decoupled)
            weight *= 1 - k.rate * k.decay;
        else
            d += k.decay * weight;
        number const m = k.beta1 * static_cast<number>(mean[i]) + (1 - k.beta1) * d;
        number const v = k.beta2 * static_cast<number>(square[i]) + (1 - k.beta2) * d * d;
        mean[i] = static_cast<T>(m);
        square[i] = static_cast<T>(v);
        w[i] = static_cast<T>(weight - corrected.step * (m / (std::sqrt(v) * corrected.root + k.epsilon)));
    }
};

} // namespace trireme::blocks

namespace trireme {

/// Adam's update of n values, whatever the number of samples: see the host's. The numbers, and how many updates have
/// been `made`, are read when it is done, from the accelerator's memory.
template<bool Decoupled, class Stream, class T>
void adam_update(block_kernels<Stream> const& k, T* w, T* mean, T* square, T const* g, std::size_t n,
                 adam_numbers<accumulate_t<T>> const* numbers, std::uint64_t const* made) {
    k.each(n, blocks::adam_step<Decoupled, T>{w, mean, square, g, numbers, made});
}

} // namespace trireme
