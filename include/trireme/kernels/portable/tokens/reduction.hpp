// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/lanes.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

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

/// f(block_length<N>, place, count) for each N registers, at most 4, of a token's values: `count` numbers in each.
template<std::size_t Width, class Vector, class F>
[[gnu::always_inline]] inline void for_registers_of_token(F const& f) noexcept {
    constexpr std::integral_constant<std::size_t, Vector::size> all{};
    constexpr std::size_t full = Width / all;
    for_blocks<0, full, 4>([&](auto registers, std::size_t r) { f(registers, r * all, all); });
    if constexpr (Width % all != 0) f(block_length<1>{}, full * all, Width % all);
}

/// Adds up 2 D registers, which hold N / (2 D) numbers of each of N sums, to one that holds the sums. Uses `some` up.
template<std::size_t D, class T, std::size_t N, std::size_t Rows>
[[gnu::always_inline]] inline lane_vector<T, N> sums_of(lane_vector<T, N> (&some)[Rows]) noexcept {
    if constexpr (D == 0) {
        return some[0];
    } else {
        [&]<std::size_t... Row>(std::index_sequence<Row...>) {
            ((swap_blocks<D>(some[Row], some[Row + D]), some[Row] = some[Row] + some[Row + D]), ...);
        }(std::make_index_sequence<D>{});
        return sums_of<D / 2>(some);
    }
}

/// Tokens that norms go through together: as many as a register has numbers, one for each.
template<class T>
inline constexpr std::size_t norm_tokens = full_register<T>;

/// Some sums over the values of each of norm_tokens tokens.
template<class T, std::size_t Sums>
using token_sums = std::array<lane_vector<T, norm_tokens<T>>, Sums>;

/// Sums over each token's values, for `count` tokens; those behind are any numbers. f(token, place, n, sums so far)
/// adds the n values from `place` on. Two tokens go on at once, and each sum is one of two registers by turns where
/// there is room, so that additions do not wait for one another. A sum has the additions of its register's sum().
template<std::size_t Sums, std::size_t Width, class T, class F>
[[gnu::always_inline]] inline token_sums<T, Sums> sums_of_tokens(std::size_t count, F const& f) noexcept {
    using vector = lane_vector<T, norm_tokens<T>>;
    constexpr std::integral_constant<std::size_t, vector::size> all{};
    constexpr std::size_t half = norm_tokens<T> / 2, full = Width / all,
                          turns = full > 1 && 4 * Sums <= accumulators ? 2 : 1;
    vector of_pairs[Sums][half];
    for (std::size_t t = 0; t < std::min(half, count); ++t) {
        std::size_t const tokens[2] = {t, std::min(t + half, count - 1)};
        vector some[2][turns][Sums];
#pragma GCC unroll 2
        for (auto& token : some)
#pragma GCC unroll 2
            for (auto& turn : token)
#pragma GCC unroll 4
                for (auto& sum : turn) sum = vector::all(0);
#pragma GCC unroll 2
        for (std::size_t i = 0; i + turns <= full; i += turns)
#pragma GCC unroll 2
            for (std::size_t k = 0; k < turns; ++k)
#pragma GCC unroll 2
                for (std::size_t n = 0; n < 2; ++n) f(tokens[n], (i + k) * all, all, some[n][k]);
#pragma GCC unroll 2
        for (std::size_t n = 0; n < 2; ++n) {
            if constexpr (full % turns != 0) f(tokens[n], (full - 1) * all, all, some[n][0]);
            if constexpr (Width % all != 0) f(tokens[n], full * all, Width % all, some[n][turns - 1]);
        }
#pragma GCC unroll 4
        for (std::size_t k = 0; k < Sums; ++k) {
            if constexpr (turns == 2)
#pragma GCC unroll 2
                for (auto& token : some) token[0][k] = token[0][k] + token[1][k];
            swap_blocks<half>(some[0][0][k], some[1][0][k]);
            of_pairs[k][t] = some[0][0][k] + some[1][0][k];
        }
    }
    token_sums<T, Sums> sums;
#pragma GCC unroll 4
    for (std::size_t k = 0; k < Sums; ++k) {
        for (auto t = count; t < half; ++t) of_pairs[k][t] = vector::all(0);
        sums[k] = sums_of<half / 2>(of_pairs[k]);
    }
    return sums;
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
