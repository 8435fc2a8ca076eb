// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/portable/tokens/reduction.hpp>

#include <cmath>
#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

/// 1 / sqrt(mean of squares + epsilon) of a token.
template<std::size_t Width, class T>
[[gnu::always_inline]] inline T token_scale(T const* x, double epsilon) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    T const squares = sum_of_token<Width, T>([&](std::size_t i, auto count, vector sum) {
        auto const value = vector::load(x + i, count);
        return multiply_add(value, value, sum);
    });
    return T(1) / std::sqrt(squares / static_cast<T>(Width) + static_cast<T>(epsilon));
}

/// Numbers times the weights from w on, if there are any.
template<class G, class Vector, class T>
[[gnu::always_inline]] inline Vector weighted(Vector values, [[maybe_unused]] T const* w,
                                              [[maybe_unused]] std::size_t i, [[maybe_unused]] auto count) noexcept {
    if constexpr (G::weighted)
        return values * Vector::load(w + i, count);
    else
        return values;
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = w x / sqrt(mean of squares + epsilon), with each token's own mean. x, y: Tokens x Width, w: Width.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void rms_norm_forward(portable, T const* x, T const* w, double epsilon, T* y) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for (std::size_t t = 0; t < G::tokens; ++t, x += G::width, y += G::width) {
        auto const scale = vector::all(detail::token_scale<G::width>(x, epsilon));
        for_registers<vector>(G::width, [=](std::size_t i, auto count) {
            detail::weighted<G>(vector::load(x + i, count) * scale, w, i, count).store(y + i, count);
        });
    }
}

/// dx = scale (g - normalised x times mean of g times it), where g = w dy; overwrites dx, which may be dy.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void rms_norm_backward_input(portable, T const* x, T const* dy, T const* w, double epsilon,
                                              T* dx) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for (std::size_t t = 0; t < G::tokens; ++t, x += G::width, dy += G::width, dx += G::width) {
        auto const scale = vector::all(detail::token_scale<G::width>(x, epsilon));
        auto const slope = [=](std::size_t i, auto count) {
            return detail::weighted<G>(vector::load(dy + i, count), w, i, count);
        };
        T const with_x = detail::sum_of_token<G::width, T>([&](std::size_t i, auto count, vector so_far) {
            return multiply_add(slope(i, count), vector::load(x + i, count) * scale, so_far);
        });
        auto const by_x = vector::all(with_x / static_cast<T>(G::width));
        for_registers<vector>(G::width, [=](std::size_t i, auto count) {
            (scale * (slope(i, count) - vector::load(x + i, count) * scale * by_x)).store(dx + i, count);
        });
    }
}

/// dw += dy times the normalised x, summed over the tokens in their order.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void rms_norm_backward_weights(portable, T const* x, T const* dy, double epsilon, T* dw) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for (std::size_t t = 0; t < G::tokens; ++t, x += G::width, dy += G::width) {
        auto const scale = vector::all(detail::token_scale<G::width>(x, epsilon));
        for_registers<vector>(G::width, [=](std::size_t i, auto count) {
            multiply_add(vector::load(dy + i, count), vector::load(x + i, count) * scale, vector::load(dw + i, count))
                .store(dw + i, count);
        });
    }
}

} // namespace trireme::inline TRIREME_ISA
