// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/reference/policy.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// y = x, and loss = share times the mean of the squares of a sample's values, unless loss is null. x, y: Size x Lanes;
/// loss: Lanes. y may be x.
template<std::size_t Size, std::size_t Lanes, class T>
void activity_penalty_forward(reference, T const* x, T share, T* y, T* loss) noexcept {
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        T sum = 0;
        for (std::size_t at = lane; at < Size * Lanes; at += Lanes) {
            sum += x[at] * x[at];
            y[at] = x[at];
        }
        if (loss != nullptr) loss[lane] = share * sum / T(Size);
    }
}

/// dx = dy + weight times the slope of the penalty. x, dy, dx: Size x Lanes; weight: Lanes. dx may be dy.
template<std::size_t Size, std::size_t Lanes, class T>
void activity_penalty_backward_input(reference, T const* x, T const* dy, T const* weight, T share, T* dx) noexcept {
    for (std::size_t at = 0; at < Size * Lanes; ++at)
        dx[at] = dy[at] + weight[at % Lanes] * (2 * share / T(Size)) * x[at];
}

} // namespace trireme::inline TRIREME_ISA
