// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/adagrad_numbers.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace trireme::blocks {

/// One weight's update. Each thread divides the rate anew.
template<class T>
struct adagrad_step {
    using number = accumulate_t<T>;
    T *w, *squares;
    T const* g;
    adagrad_numbers<number> const* numbers;
    std::uint64_t const* made;

    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        adagrad_numbers<number> const k = *numbers;
        auto const weight = static_cast<number>(w[i]);
        number const d = static_cast<number>(g[i]) + k.decay * weight;
        number const v = static_cast<number>(squares[i]) + d * d;
        squares[i] = static_cast<T>(v);
        w[i] = static_cast<T>(weight - adagrad_rate(k, *made) * (d / (std::sqrt(v + k.initial) + k.epsilon)));
    }
};

} // namespace trireme::blocks

namespace trireme {

/// Adagrad's update of n values, whatever the number of samples: see the host's. The numbers, and how many updates have
/// been `made`, are read when it is done, from the accelerator's memory.
template<class Stream, class T>
void adagrad_update(block_kernels<Stream> const& k, T* w, T* squares, T const* g, std::size_t n,
                    adagrad_numbers<accumulate_t<T>> const* numbers, std::uint64_t const* made) {
    k.each(n, blocks::adagrad_step<T>{w, squares, g, numbers, made});
}

} // namespace trireme
