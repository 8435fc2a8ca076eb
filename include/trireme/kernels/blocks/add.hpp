// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/blocks/elementwise.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <cstddef>

namespace trireme::blocks {

/// F(a + b).
template<class F, class T>
struct sum_of_two {
    using value = T;
    using number = accumulate_t<T>;
    using geometry = without_channels;
    using coefficients = nothing_kept;
    static constexpr u32 inputs = 2;
    T const* from[inputs];
    T* to;
    TRIREME_HOST_DEVICE number operator()(number const (&in)[inputs], coefficients const&, std::size_t, u32) const {
        return F::value(in[0] + in[1]);
    }
};

/// (a + b) times F's slope at what it gave, the third input.
template<class F, class T>
struct sum_of_gradients {
    using value = T;
    using number = accumulate_t<T>;
    using geometry = without_channels;
    using coefficients = nothing_kept;
    static constexpr u32 inputs = 3;
    T const* from[inputs];
    T* to;
    TRIREME_HOST_DEVICE number operator()(number const (&in)[inputs], coefficients const&, std::size_t, u32) const {
        return (in[0] + in[1]) * F::slope(in[2], in[2]);
    }
};

} // namespace trireme::blocks

namespace trireme {

/// y = F(a + b), n values per sample; F is the epilogue of the policy. y may be a or b.
template<accelerator_kernels K, class T>
void add_values(K const& k, T const* a, T const* b, T* y, std::size_t n) {
    blocks::each_value(k, n * k.samples(), blocks::sum_of_two<typename K::epilogue, T>{{a, b}, y});
}

/// dx = (a + b) times the function's slope, n values per sample; dx may be a or b.
template<accelerator_kernels K, class F, class T>
void add_gradients(with_function<K, F, T> const& k, T const* a, T const* b, T* dx, std::size_t n) {
    blocks::each_value(k, n * k.samples(), blocks::sum_of_gradients<F, T>{{a, b, k.input()}, dx});
}

} // namespace trireme
