// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/portable/tokens/reduction.hpp>

#include <algorithm>
#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

/// Tokens that layer_norm goes through together, step by step: a token's sums wait for one another, so that a processor
/// has something to do meanwhile.
template<class T>
inline constexpr std::size_t norm_tokens = full_register<T>;

/// Mean and 1 / sqrt(variance + epsilon) of `count` tokens, in two passes, so that nothing cancels.
template<std::size_t Width, class T>
struct token_moments {
    using vector = lane_vector<T, full_register<T>>;
    T mean[norm_tokens<T>], deviation[norm_tokens<T>];

    [[gnu::always_inline]] token_moments(T const* x, std::size_t count, double epsilon) noexcept {
        constexpr T n = Width;
        for (std::size_t t = 0; t < count; ++t)
            mean[t] = sum_of_token<Width, T>([from = x + t * Width](std::size_t i, auto some, vector sum) {
                          return sum + vector::load(from + i, some);
                      }) /
                      n;
        T squares[norm_tokens<T>] = {};
        for (std::size_t t = 0; t < count; ++t) {
            auto const middle = vector::all(mean[t]);
            squares[t] = sum_of_token<Width, T>([=, from = x + t * Width](std::size_t i, auto some, vector sum) {
                // values behind the end are 0, and would be counted as that far from the mean
                auto const apart = vector::load(from + i, some) - middle.first(some);
                return multiply_add(apart, apart, sum);
            });
        }
        auto const variance = vector::load(squares) / vector::all(n);
        (vector::all(1) / square_root(variance + vector::all(static_cast<T>(epsilon)))).store(deviation);
    }

    /// A token's numbers less their mean, in deviations.
    struct normalise {
        vector mean, deviation;
        [[gnu::always_inline]] vector operator()(vector x) const noexcept { return (x - mean) * deviation; }
    };
    [[gnu::always_inline]] normalise of_token(std::size_t t) const noexcept {
        return {vector::all(mean[t]), vector::all(deviation[t])};
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
    for (std::size_t first = 0; first < G::tokens; first += detail::norm_tokens<T>) {
        auto const count = std::min(detail::norm_tokens<T>, G::tokens - first);
        detail::token_moments<G::width, T> const of(x, count, epsilon);
        for (std::size_t t = 0; t < count; ++t, x += G::width, y += G::width) {
            auto const normalise = of.of_token(t);
            for_registers<vector>(G::width, [=](std::size_t i, auto some) {
                auto const normalised = normalise(vector::load(x + i, some));
                multiply_add(normalised, vector::load(w + i, some), vector::load(b + i, some)).store(y + i, some);
            });
        }
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
    for (std::size_t first = 0; first < G::tokens; first += detail::norm_tokens<T>) {
        auto const count = std::min(detail::norm_tokens<T>, G::tokens - first);
        detail::token_moments<G::width, T> const of(x, count, epsilon);
        T middle[detail::norm_tokens<T>], by_x[detail::norm_tokens<T>];
        for (std::size_t t = 0; t < count; ++t) {
            auto const normalise = of.of_token(t);
            auto const *const from = x + t * G::width, *const gradient = dy + t * G::width;
            auto const slope = [=](std::size_t i, auto some) {
                return vector::load(w + i, some) * vector::load(gradient + i, some);
            };
            middle[t] = detail::sum_of_token<G::width, T>(
                            [=](std::size_t i, auto some, vector so_far) { return so_far + slope(i, some); }) /
                        n;
            by_x[t] = detail::sum_of_token<G::width, T>([=](std::size_t i, auto some, vector so_far) {
                          return multiply_add(slope(i, some), normalise(vector::load(from + i, some)), so_far);
                      }) /
                      n;
        }
        for (std::size_t t = 0; t < count; ++t, x += G::width, dy += G::width, dx += G::width) {
            auto const normalise = of.of_token(t);
            auto const taken = vector::all(middle[t]), by = vector::all(by_x[t]);
            for_registers<vector>(G::width, [=](std::size_t i, auto some) {
                auto const slope = vector::load(w + i, some) * vector::load(dy + i, some);
                auto const rest = slope - taken - normalise(vector::load(x + i, some)) * by;
                (normalise.deviation * rest).store(dx + i, some);
            });
        }
    }
}

/// dw += dy times the normalised x, db += dy, summed over the tokens in their order.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void layer_norm_backward_weights(portable, T const* x, T const* dy, double epsilon, T* dw,
                                                  T* db) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for (std::size_t first = 0; first < G::tokens; first += detail::norm_tokens<T>) {
        auto const count = std::min(detail::norm_tokens<T>, G::tokens - first);
        detail::token_moments<G::width, T> const of(x, count, epsilon);
        for_registers<vector>(G::width, [=, &of](std::size_t i, auto some) {
            auto by_w = vector::load(dw + i, some), by_b = vector::load(db + i, some);
            for (std::size_t t = 0; t < count; ++t) {
                auto const gradient = vector::load(dy + t * G::width + i, some);
                by_w = multiply_add(gradient, of.of_token(t)(vector::load(x + t * G::width + i, some)), by_w);
                by_b = by_b + gradient;
            }
            by_w.store(dw + i, some);
            by_b.store(db + i, some);
        });
        x += count * G::width;
        dy += count * G::width;
    }
}

} // namespace trireme::inline TRIREME_ISA
