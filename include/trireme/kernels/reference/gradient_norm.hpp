// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/reference/policy.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// The sum of the squares of n values, in double, one after the other.
template<class T>
double sum_of_squares(reference, T const* x, std::size_t n) noexcept {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return sum;
}

/// x *= by, n values.
template<class T>
void scale_values(reference, T* x, T by, std::size_t n) noexcept {
    for (std::size_t i = 0; i < n; ++i) x[i] *= by;
}

} // namespace trireme::inline TRIREME_ISA
