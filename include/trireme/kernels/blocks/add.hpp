// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <cstddef>

namespace trireme::blocks {

template<class End, class T>
struct sum_of_two {
    T const *a, *b;
    T* y;
    End end;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        y[i] = static_cast<T>(end(static_cast<accumulate_t<T>>(a[i]) + static_cast<accumulate_t<T>>(b[i]), 0, i));
    }
};

} // namespace trireme::blocks

namespace trireme {

/// y = F(a + b), n values per sample; F is the epilogue of the policy. y may be a or b.
template<accelerator_kernels K, class T>
void add_values(K const& k, T const* a, T const* b, T* y, std::size_t n) {
    using end = blocks::unbiased_end<typename K::epilogue, T>;
    k.each(n * k.samples(), blocks::sum_of_two<end, T>{a, b, y, {}});
}

/// dx = (a + b) times the function's slope, n values per sample; dx may be a or b.
template<accelerator_kernels K, class F, class T>
void add_gradients(with_function<K, F, T> const& k, T const* a, T const* b, T* dx, std::size_t n) {
    using end = blocks::backward_end<F, T>;
    k.each(n * k.samples(), blocks::sum_of_two<end, T>{a, b, dx, end{k.input()}});
}

} // namespace trireme
