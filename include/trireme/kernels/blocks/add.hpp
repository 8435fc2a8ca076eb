// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <cstddef>

namespace trireme::blocks {

template<class T>
struct sum_of_two {
    T const *a, *b;
    T* y;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        y[i] = static_cast<T>(static_cast<accumulate_t<T>>(a[i]) + static_cast<accumulate_t<T>>(b[i]));
    }
};

} // namespace trireme::blocks

namespace trireme {

/// y = a + b, n values per sample; y may be a or b.
template<class Stream, class T>
void add_values(block_kernels<Stream> const& k, T const* a, T const* b, T* y, std::size_t n) {
    k.each(n * k.samples(), blocks::sum_of_two<T>{a, b, y});
}

} // namespace trireme
