// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/lanes.hpp>

#include <algorithm>
#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

namespace trireme::detail::inline TRIREME_ISA {

/// The sum over a token's values of f(place, count, sum so far), in four registers by turns, so that additions do not
/// wait for one another.
template<std::size_t Width, class T, class F>
[[gnu::always_inline]] inline T sum_of_token(F const& f) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    vector sums[4] = {vector::all(0), vector::all(0), vector::all(0), vector::all(0)};
    std::size_t turn = 0;
    for_registers<vector>(Width, [&](std::size_t i, auto count) {
        sums[turn % 4] = f(i, count, sums[turn % 4]);
        ++turn;
    });
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum();
}

/// The largest of n numbers, n > 0, none of which is a NaN; else one of the others, or a NaN.
template<class T>
[[gnu::always_inline]] inline T largest_of(T const* x, std::size_t n) noexcept {
    constexpr std::size_t width = full_register<T>;
    using vector = lane_vector<T, width>;
    T largest = x[0];
    if (n < width) {
        for (std::size_t i = 1; i < n; ++i) largest = std::max(largest, x[i]);
        return largest;
    }
    auto const larger = [](vector a, vector b) { return vector::select(b > a, b, a); };
    vector most[4] = {vector::load(x), vector::load(x), vector::load(x), vector::load(x)};
    std::size_t i = 0;
    for (; i + 4 * width <= n; i += 4 * width)
#pragma GCC unroll 4
        for (std::size_t k = 0; k < 4; ++k) most[k] = larger(most[k], vector::load(x + i + k * width));
    for (; i + width <= n; i += width) most[0] = larger(most[0], vector::load(x + i));
    most[1] = larger(most[1], vector::load(x + n - width)); // the last numbers, some of them once more
    T some[width];
    larger(larger(most[0], most[1]), larger(most[2], most[3])).store(some);
    for (T const each : some) largest = std::max(largest, each);
    return largest;
}

} // namespace trireme::detail::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
