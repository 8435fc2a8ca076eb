// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/blocks/elementwise.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <cstddef>

namespace trireme::blocks {

template<class F, class T>
struct activation_value {
    using value = T;
    using number = accumulate_t<T>;
    using geometry = without_channels;
    using coefficients = nothing_kept;
    static constexpr u32 inputs = 1;
    T const* from[inputs]; ///< x
    T* to;
    TRIREME_HOST_DEVICE number operator()(number const (&in)[inputs], coefficients const&, std::size_t, u32) const {
        return F::value(in[0]);
    }
};

template<class F, class T>
struct activation_gradient {
    using value = T;
    using number = accumulate_t<T>;
    using geometry = without_channels;
    using coefficients = nothing_kept;
    static constexpr u32 inputs = 3;
    T const* from[inputs]; ///< x, y, dy
    T* to;
    TRIREME_HOST_DEVICE number operator()(number const (&in)[inputs], coefficients const&, std::size_t, u32) const {
        return in[2] * F::slope(in[0], in[1]);
    }
};

} // namespace trireme::blocks

namespace trireme {

/// y = F(x), n values per sample; y may be x.
template<class F, class Stream, class T>
void activation_forward(block_kernels<Stream> const& k, T const* x, T* y, std::size_t n) {
    blocks::each_value(k, n * k.samples(), blocks::activation_value<F, T>{{x}, y});
}

/// dx = dy * F'(x), n values per sample, with x and y of the forward pass; dx may be dy.
template<class F, class Stream, class T>
void activation_backward_input(block_kernels<Stream> const& k, T const* x, T const* y, T const* dy, T* dx,
                               std::size_t n) {
    blocks::each_value(k, n * k.samples(), blocks::activation_gradient<F, T>{{x, y, dy}, dx});
}

} // namespace trireme
