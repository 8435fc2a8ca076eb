// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// y = x, and loss = share times the mean of the squares of a sample's values, unless loss is null. x, y: Size x Lanes;
/// loss: Lanes. y may be x.
template<std::size_t Size, std::size_t Lanes, class T>
    requires(Lanes > 1)
TRIREME_NOINLINE void activity_penalty_forward(portable, T const* x, T share, T* y, T* loss) noexcept {
    T sum[Lanes] = {};
    for (std::size_t i = 0; i < Size; ++i)
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            T const value = x[i * Lanes + lane];
            sum[lane] += value * value;
            y[i * Lanes + lane] = value;
        }
    for (std::size_t lane = 0; loss != nullptr && lane < Lanes; ++lane) loss[lane] = share / T(Size) * sum[lane];
}

/// y, likewise, of one sample, whose values fill registers.
template<std::size_t Size, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void activity_penalty_forward(portable, T const* x, T share, T* y, T* loss) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    auto sums = vector::all(0);
    for_registers<vector>(Size, [&](std::size_t i, auto n) {
        auto const values = vector::load(x + i, n);
        sums = sums + values * values;
        values.store(y + i, n);
    });
    if (loss == nullptr) return;
    T sum = 0, of_lanes[vector::size];
    sums.store(of_lanes);
    for (auto const each : of_lanes) sum += each;
    *loss = share / T(Size) * sum;
}

/// dx = dy + weight times the slope of the penalty. x, dy, dx: Size x Lanes; weight: Lanes. dx may be dy.
template<std::size_t Size, std::size_t Lanes, class T>
TRIREME_NOINLINE void activity_penalty_backward_input(portable, T const* x, T const* dy, T const* weight, T share,
                                                      T* dx) noexcept {
    T slope[Lanes];
    for (std::size_t lane = 0; lane < Lanes; ++lane) slope[lane] = weight[lane] * (2 * share / T(Size));
    for (std::size_t i = 0; i < Size; ++i)
        for (std::size_t lane = 0; lane < Lanes; ++lane)
            dx[i * Lanes + lane] = dy[i * Lanes + lane] + slope[lane] * x[i * Lanes + lane];
}

} // namespace trireme::inline TRIREME_ISA
