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

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

namespace trireme::detail::inline TRIREME_ISA {

/// Means of `count` tokens.
template<std::size_t Width, class T>
[[gnu::always_inline]] inline lane_vector<T, norm_tokens<T>> token_means(T const* x, std::size_t count) noexcept {
    using vector = lane_vector<T, norm_tokens<T>>;
    auto const sums = sums_of_tokens<1, Width, T>(count, [x](std::size_t t, std::size_t i, auto some, vector* to) {
        to[0] = to[0] + vector::load(x + t * Width + i, some);
    });
    return sums[0] / vector::all(Width);
}

/// Mean and 1 / sqrt(variance + epsilon) of `count` tokens, in two passes, so that nothing cancels. The second adds up
/// More other sums: f(token, place, n, numbers less their mean, sums).
template<std::size_t Width, class T, std::size_t More>
struct token_moments {
    using vector = lane_vector<T, norm_tokens<T>>;
    alignas(64) T mean[norm_tokens<T>];
    alignas(64) T deviation[norm_tokens<T>];
    token_sums<T, More + 1> sums; // the others, behind the squares

    template<class F>
    [[gnu::always_inline]] token_moments(T const* x, vector means, std::size_t count, double epsilon,
                                         F const& f) noexcept {
        means.store(mean);
        sums = sums_of_tokens<More + 1, Width, T>(
            count, [this, x, &f](std::size_t t, std::size_t i, auto some, vector* to) {
                // values behind the end are 0, and would be counted as that far from the mean
                auto const apart = vector::load(x + t * Width + i, some) - vector::all(mean[t]).first(some);
                to[0] = multiply_add(apart, apart, to[0]);
                f(t, i, some, apart, to + 1);
            });
        auto const variance = sums[0] / vector::all(Width);
        (vector::all(1) / square_root(variance + vector::all(static_cast<T>(epsilon)))).store(deviation);
    }
};

/// f(tokens, moments) for norm_tokens tokens at a time, the last fewer: their first and how many they are. `more`: see
/// token_moments, with the first token before the others. The next tokens' means are computed before f, while a
/// processor waits for roots, if their values have room in the first cache beside what f reads and writes.
template<class G, std::size_t More, class T, class F, class M>
[[gnu::always_inline]] inline void for_moments(T const* x, double epsilon, M const& more, F const& f) noexcept {
    auto const count = [](std::size_t first) { return std::min(norm_tokens<T>, G::tokens - first); };
    constexpr std::size_t arrays = More == 0 ? 3 : 4, room = 48 * 1024;
    constexpr bool ahead = arrays * norm_tokens<T> * G::width * sizeof(T) <= room;
    auto means = token_means<G::width>(x, count(0));
    for (std::size_t first = 0; first < G::tokens; first += norm_tokens<T>) {
        token_moments<G::width, T, More> const of(
            x + first * G::width, means, count(first), epsilon,
            [=, &more](std::size_t t, auto const&... at) { more(first + t, at...); });
        if constexpr (!ahead) f(first, count(first), of);
        auto const next = first + norm_tokens<T>;
        if (next < G::tokens) means = token_means<G::width>(x + next * G::width, count(next));
        if constexpr (ahead) f(first, count(first), of);
    }
}

/// Nothing besides the moments.
inline constexpr auto only_moments = [](auto const&...) {};

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = w (x - mean) / sqrt(variance + epsilon) + b, with each token's own mean and variance. x, y: Tokens x Width, w,
/// b: Width. Cost: a token is read three times, twice from the first cache.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void layer_norm_forward(portable, T const* x, T const* w, T const* b, double epsilon, T* y) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    detail::for_moments<G, 0>(
        x, epsilon, detail::only_moments, [=](std::size_t first, std::size_t count, auto const& of) {
            for (std::size_t t = 0; t < count; ++t) {
                auto const mean = vector::all(of.mean[t]), deviation = vector::all(of.deviation[t]);
                auto const* const from = x + (first + t) * G::width;
                auto* const to = y + (first + t) * G::width;
                for_registers<vector>(G::width, [=](std::size_t i, auto some) {
                    auto const normalised = (vector::load(from + i, some) - mean) * deviation;
                    multiply_add(normalised, vector::load(w + i, some), vector::load(b + i, some)).store(to + i, some);
                });
            }
        });
}

/// dx = deviation (g - mean of g - normalised x times mean of g times it), where g = w dy; overwrites dx, which may be
/// dy.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void layer_norm_backward_input(portable, T const* x, T const* dy, T const* w, double epsilon,
                                                T* dx) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    auto const with_slopes = [=](std::size_t t, std::size_t i, auto some, vector apart, vector* sums) {
        auto const slope = vector::load(w + i, some) * vector::load(dy + t * G::width + i, some);
        sums[0] = sums[0] + slope;
        sums[1] = multiply_add(slope, apart, sums[1]);
    };
    detail::for_moments<G, 2>(x, epsilon, with_slopes, [=](std::size_t first, std::size_t count, auto const& of) {
        // dx = deviation g + by x + rest
        auto const n = vector::all(G::width), deviation = vector::load(of.deviation);
        auto const by_x = of.sums[2] / n * deviation * deviation * deviation;
        alignas(64) T by[detail::norm_tokens<T>];
        alignas(64) T rest[detail::norm_tokens<T>];
        (-by_x).store(by);
        multiply_add(by_x, vector::load(of.mean), -(of.sums[1] / n * deviation)).store(rest);
        for (std::size_t t = 0; t < count; ++t) {
            auto const by_slope = vector::all(of.deviation[t]), by_value = vector::all(by[t]),
                       more = vector::all(rest[t]);
            auto const token = (first + t) * G::width;
            auto const *const from = x + token, *const gradient = dy + token;
            auto* const to = dx + token;
            for_registers<vector>(G::width, [=](std::size_t i, auto some) {
                auto const slope = vector::load(w + i, some) * vector::load(gradient + i, some);
                multiply_add(slope, by_slope, multiply_add(vector::load(from + i, some), by_value, more))
                    .store(to + i, some);
            });
        }
    });
}

/// dw += dy times the normalised x, db += dy, summed over the tokens in their order.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void layer_norm_backward_weights(portable, T const* x, T const* dy, double epsilon, T* dw,
                                                  T* db) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    detail::for_moments<G, 0>(
        x, epsilon, detail::only_moments, [=](std::size_t first, std::size_t count, auto const& of) {
            alignas(64) T less[detail::norm_tokens<T>];
            (-vector::load(of.mean) * vector::load(of.deviation)).store(less);
            detail::for_registers_of_token<G::width, vector>(
                [=, &of, &less]<std::size_t N>(block_length<N>, std::size_t i, auto some) {
                    vector by_w[N], by_b[N];
#pragma GCC unroll 4
                    for (std::size_t k = 0; k < N; ++k) {
                        by_w[k] = vector::load(dw + i + k * vector::size, some);
                        by_b[k] = vector::load(db + i + k * vector::size, some);
                    }
                    auto at = first * G::width + i;
                    for (std::size_t t = 0; t < count; ++t, at += G::width) {
                        auto const deviation = vector::all(of.deviation[t]), rest = vector::all(less[t]);
#pragma GCC unroll 4
                        for (std::size_t k = 0; k < N; ++k) {
                            auto const gradient = vector::load(dy + at + k * vector::size, some);
                            auto const normalised =
                                multiply_add(vector::load(x + at + k * vector::size, some), deviation, rest);
                            by_w[k] = multiply_add(gradient, normalised, by_w[k]);
                            by_b[k] = by_b[k] + gradient;
                        }
                    }
#pragma GCC unroll 4
                    for (std::size_t k = 0; k < N; ++k) {
                        by_w[k].store(dw + i + k * vector::size, some);
                        by_b[k].store(db + i + k * vector::size, some);
                    }
                });
        });
}

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
