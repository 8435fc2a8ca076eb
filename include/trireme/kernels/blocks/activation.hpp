// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <cstddef>

namespace trireme::blocks {

template<class F, class T>
struct activation_value {
    T const* x;
    T* y;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        y[i] = static_cast<T>(F::value(static_cast<accumulate_t<T>>(x[i])));
    }
};

template<class F, class T>
struct activation_gradient {
    T const *x, *y, *dy;
    T* dx;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        using number = accumulate_t<T>;
        dx[i] =
            static_cast<T>(static_cast<number>(dy[i]) * F::slope(static_cast<number>(x[i]), static_cast<number>(y[i])));
    }
};

} // namespace trireme::blocks

namespace trireme {

/// y = F(x), n values per sample; y may be x.
template<class F, class Stream, class T>
void activation_forward(block_kernels<Stream> const& k, T const* x, T* y, std::size_t n) {
    k.each(n * k.samples(), blocks::activation_value<F, T>{x, y});
}

/// dx = dy * F'(x), n values per sample, with x and y of the forward pass; dx may be dy.
template<class F, class Stream, class T>
void activation_backward_input(block_kernels<Stream> const& k, T const* x, T const* y, T const* dy, T* dx,
                               std::size_t n) {
    k.each(n * k.samples(), blocks::activation_gradient<F, T>{x, y, dy, dx});
}

} // namespace trireme
