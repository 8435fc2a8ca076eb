// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/lanes.hpp>

#include <cstddef>

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

} // namespace trireme::detail::inline TRIREME_ISA
