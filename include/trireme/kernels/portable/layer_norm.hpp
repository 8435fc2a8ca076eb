// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/portable/tokens/sum.hpp>

#include <cmath>
#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

/// Mean and 1 / sqrt(variance + epsilon) of a token, in two passes, so that nothing cancels.
template<std::size_t Width, class T>
struct token_moments {
    T mean, deviation;

    [[gnu::always_inline]] token_moments(T const* x, double epsilon) noexcept {
        using vector = lane_vector<T, full_register<T>>;
        constexpr T n = Width;
        mean = sum_of_token<Width, T>(
                   [&](std::size_t i, auto count, vector sum) { return sum + vector::load(x + i, count); }) /
               n;
        // values behind the end are 0, and would be counted as that far from the mean
        T const squares = sum_of_token<Width, T>([&](std::size_t i, auto count, vector sum) {
            auto const apart = vector::load(x + i, count) - vector::all(mean).first(count);
            return multiply_add(apart, apart, sum);
        });
        deviation = T(1) / std::sqrt(squares / n + static_cast<T>(epsilon));
    }
};

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = w (x - mean) / sqrt(variance + epsilon) + b, with each token's own mean and variance. x, y: Tokens x Width, w,
/// b: Width. Cost: a token is read three times, twice from the first cache.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void layer_norm_forward(portable, T const* x, T const* w, T const* b, double epsilon, T* y) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for (std::size_t t = 0; t < G::tokens; ++t, x += G::width, y += G::width) {
        detail::token_moments<G::width, T> const of(x, epsilon);
        auto const mean = vector::all(of.mean), deviation = vector::all(of.deviation);
        for_registers<vector>(G::width, [=](std::size_t i, auto count) {
            auto const normalised = (vector::load(x + i, count) - mean) * deviation;
            multiply_add(normalised, vector::load(w + i, count), vector::load(b + i, count)).store(y + i, count);
        });
    }
}

/// dx = deviation (g - mean of g - normalised x times mean of g times it), where g = w dy; overwrites dx, which may be
/// dy.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void layer_norm_backward_input(portable, T const* x, T const* dy, T const* w, double epsilon,
                                                T* dx) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    constexpr T n = G::width;
    for (std::size_t t = 0; t < G::tokens; ++t, x += G::width, dy += G::width, dx += G::width) {
        detail::token_moments<G::width, T> const of(x, epsilon);
        auto const mean = vector::all(of.mean), deviation = vector::all(of.deviation);
        auto const slope = [=](std::size_t i, auto count) {
            return vector::load(w + i, count) * vector::load(dy + i, count);
        };
        T const sum = detail::sum_of_token<G::width, T>(
            [&](std::size_t i, auto count, vector so_far) { return so_far + slope(i, count); });
        T const with_x = detail::sum_of_token<G::width, T>([&](std::size_t i, auto count, vector so_far) {
            return multiply_add(slope(i, count), (vector::load(x + i, count) - mean) * deviation, so_far);
        });
        auto const middle = vector::all(sum / n), by_x = vector::all(with_x / n);
        for_registers<vector>(G::width, [=](std::size_t i, auto count) {
            auto const normalised = (vector::load(x + i, count) - mean) * deviation;
            (deviation * (slope(i, count) - middle - normalised * by_x)).store(dx + i, count);
        });
    }
}

/// dw += dy times the normalised x, db += dy, summed over the tokens in their order.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void layer_norm_backward_weights(portable, T const* x, T const* dy, double epsilon, T* dw,
                                                  T* db) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for (std::size_t t = 0; t < G::tokens; ++t, x += G::width, dy += G::width) {
        detail::token_moments<G::width, T> const of(x, epsilon);
        auto const mean = vector::all(of.mean), deviation = vector::all(of.deviation);
        for_registers<vector>(G::width, [=](std::size_t i, auto count) {
            auto const gradient = vector::load(dy + i, count);
            auto const normalised = (vector::load(x + i, count) - mean) * deviation;
            multiply_add(gradient, normalised, vector::load(dw + i, count)).store(dw + i, count);
            (vector::load(db + i, count) + gradient).store(db + i, count);
        });
    }
}

} // namespace trireme::inline TRIREME_ISA
