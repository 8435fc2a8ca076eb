// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

namespace trireme::inline TRIREME_ISA {

/// The sum of the squares of n values, in double, in an order that n alone decides.
template<class T>
TRIREME_NOINLINE double sum_of_squares(portable, T const* x, std::size_t n) noexcept {
    constexpr std::size_t width = full_register<double>, sums = 4; // additions that are under way at a time
    using wide = lane_vector<double, width>;
    using narrow = lane_vector<T, width>;
    using wide_register = typename wide::register_type; // nvcc forgets the typename behind the comma below
    wide sum[sums] = {wide::all(0), wide::all(0), wide::all(0), wide::all(0)};
    auto const add = [x](wide& to, std::size_t i, std::size_t count) {
        wide const value{__builtin_convertvector(narrow::load(x + i, count).value, wide_register)};
        to = multiply_add(value, value, to);
    };
    std::size_t i = 0;
    for (; i + sums * width <= n; i += sums * width) {
#pragma GCC unroll 4
        for (std::size_t k = 0; k < sums; ++k) add(sum[k], i + k * width, width);
    }
    for (; i < n; i += width) add(sum[0], i, n - i);
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])).sum();
}

/// x *= by, n values.
template<class T>
TRIREME_NOINLINE void scale_values(portable, T* x, T by, std::size_t n) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for_registers<vector>(
        n, [=](std::size_t i, auto count) { (vector::load(x + i, count) * vector::all(by)).store(x + i, count); });
}

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
