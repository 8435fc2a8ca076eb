// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/few_tokens/layer_norm.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/portable/tokens/reduction.hpp>

#include <algorithm>
#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

namespace trireme::detail::inline TRIREME_ISA {

/// Means of the first values, at most a register of them, of `count` tokens.
template<std::size_t Width, class T>
[[gnu::always_inline]] inline lane_vector<T, norm_tokens<T>> first_means(T const* x, std::size_t count) noexcept {
    using vector = lane_vector<T, norm_tokens<T>>;
    constexpr std::size_t few = std::min(Width, vector::size);
    auto const sums = sums_of_tokens<1, few, T>(count, [x](std::size_t t, std::size_t i, auto some, vector* to) {
        to[0] = to[0] + vector::load(x + t * Width + i, some);
    });
    return sums[0] / vector::all(few);
}

/// Mean and 1 / sqrt(variance + epsilon) of `count` tokens, in one pass over their values less `shift`, a number near
/// the mean. Little cancels in the variance: the mean of n of a token's values is within sqrt(Width / n) standard
/// deviations of the mean of all. The pass adds up More other sums: f(token, place, n, values less `shift`, sums).
template<std::size_t Width, class T, std::size_t More>
struct token_moments {
    using vector = lane_vector<T, norm_tokens<T>>;
    alignas(64) T mean[norm_tokens<T>];
    alignas(64) T deviation[norm_tokens<T>];
    vector apart;                 // the mean less `shift`
    token_sums<T, More + 2> sums; // the others, behind the values and their squares

    template<class F>
    [[gnu::always_inline]] token_moments(T const* x, vector shift, std::size_t count, double epsilon,
                                         F const& f) noexcept {
        shift.store(mean);
        sums = sums_of_tokens<More + 2, Width, T>(
            count, [this, x, &f](std::size_t t, std::size_t i, auto some, vector* to) {
                // values behind the end are 0, and would be counted as that far from the mean
                auto const value = vector::load(x + t * Width + i, some) - vector::all(mean[t]).first(some);
                to[0] = to[0] + value;
                to[1] = multiply_add(value, value, to[1]);
                f(t, i, some, value, to + 2);
            });
        auto const n = vector::all(Width);
        apart = sums[0] / n;
        (shift + apart).store(mean);
        auto const variance = sums[1] / n - apart * apart;
        (vector::all(1) / square_root(variance + vector::all(static_cast<T>(epsilon)))).store(deviation);
    }
};

/// f(block_length<N>, first token, moments) for at most norm_tokens tokens at a time. `more`: see token_moments, with
/// the first token before the others. The next tokens are begun before f, while a processor waits for roots.
template<class G, std::size_t More, class T, class F, class M>
[[gnu::always_inline]] inline void for_moments(T const* x, double epsilon, M const& more, F const& f) noexcept {
    constexpr std::size_t most = even_block(G::tokens, norm_tokens<T>);
    auto shift = first_means<G::width>(x, most);
    for_blocks<0, G::tokens, most>([&]<std::size_t N>(block_length<N> count, std::size_t first) {
        token_moments<G::width, T, More> const of(
            x + first * G::width, shift, count, epsilon,
            [=, &more](std::size_t t, auto const&... at) { more(first + t, at...); });
        auto const next = first + count;
        if (next < G::tokens) shift = first_means<G::width>(x + next * G::width, std::min(most, G::tokens - next));
        f(count, first, of);
    });
}

/// Nothing besides the moments.
inline constexpr auto only_moments = [](auto const&...) {};

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = w (x - mean) / sqrt(variance + epsilon) + b, with each token's own mean and variance. x, y: Tokens x Width, w,
/// b: Width. Cost: a token is read twice, once from the first cache.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void layer_norm_forward(portable, T const* x, T const* w, T const* b, double epsilon, T* y) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    detail::for_moments<G, 0>(x, epsilon, detail::only_moments, [=](auto count, std::size_t first, auto const& of) {
        for_blocks<0, count, accumulators / 3>([=, &of]<std::size_t N>(block_length<N>, std::size_t t) {
            vector mean[N], deviation[N];
#pragma GCC unroll 8
            for (std::size_t n = 0; n < N; ++n) {
                mean[n] = vector::all(of.mean[t + n]);
                deviation[n] = vector::all(of.deviation[t + n]);
            }
            for_registers<vector>(G::width, [=](std::size_t i, auto some) {
                auto const scale = vector::load(w + i, some), offset = vector::load(b + i, some);
#pragma GCC unroll 8
                for (std::size_t n = 0; n < N; ++n) {
                    auto const at = (first + t + n) * G::width + i;
                    auto const normalised = (vector::load(x + at, some) - mean[n]) * deviation[n];
                    multiply_add(normalised, scale, offset).store(y + at, some);
                }
            });
        });
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
    detail::for_moments<G, 2>(x, epsilon, with_slopes, [=](auto count, std::size_t first, auto const& of) {
        // dx = deviation g + by x + rest
        auto const n = vector::all(G::width), deviation = vector::load(of.deviation);
        auto const by_x = multiply_add(-of.apart, of.sums[2], of.sums[3]) / n * deviation * deviation * deviation;
        alignas(64) T by[detail::norm_tokens<T>];
        alignas(64) T rest[detail::norm_tokens<T>];
        (-by_x).store(by);
        auto const of_slopes = kept(of.sums[2] / n * deviation); // of two products GCC would fuse either
        multiply_add(by_x, vector::load(of.mean), -of_slopes).store(rest);
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
    detail::for_moments<G, 0>(x, epsilon, detail::only_moments, [=](auto count, std::size_t first, auto const& of) {
        alignas(64) T less[detail::norm_tokens<T>];
        (-vector::load(of.mean) * vector::load(of.deviation)).store(less);
        for_blocks<0, count, accumulators / 3>([=, &of, &less]<std::size_t N>(block_length<N>, std::size_t t) {
            vector deviation[N], rest[N];
#pragma GCC unroll 8
            for (std::size_t n = 0; n < N; ++n) {
                deviation[n] = vector::all(of.deviation[t + n]);
                rest[n] = vector::all(less[t + n]);
            }
            for_registers<vector>(G::width, [=](std::size_t i, auto some) {
                auto by_w = vector::load(dw + i, some), by_b = vector::load(db + i, some);
#pragma GCC unroll 8
                for (std::size_t n = 0; n < N; ++n) {
                    auto const at = (first + t + n) * G::width + i;
                    auto const gradient = kept(vector::load(dy + at, some));
                    auto const normalised = multiply_add(vector::load(x + at, some), deviation[n], rest[n]);
                    by_w = multiply_add(gradient, normalised, by_w);
                    by_b = by_b + gradient;
                }
                by_w.store(dw + i, some);
                by_b.store(db + i, some);
            });
        });
    });
}

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
