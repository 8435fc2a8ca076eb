// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/lanes.hpp>

#include <cstddef>
#include <cstdint>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

namespace trireme::detail::inline TRIREME_ISA {

// exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln(2) / 2. ln 2 is split in two so that n * ln2_high is exact.
// Beyond [least, most] the result is 0 or infinity. Adding `rounder` leaves n in the lowest bits of the sum. n + lift
// is the exponent of a normal number for every x from least on.
template<class T>
struct exp_constants;

template<>
struct exp_constants<float> {
    using bits = std::uint32_t;
    static constexpr bits rounder_bits = 0x4B400000, bias = 127, mantissa = 23, lift = 24;
    static constexpr float rounder = 12582912.0f, least = -104.0f, most = 89.0f;
    static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    // minimax, highest power first; the last two terms, r + 1, are exact
    static constexpr std::size_t terms = 6;
    static constexpr float polynomial[terms] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                                4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
    // likewise of 2^r, |r| <= 1/2, but for the last term, 1
    static constexpr std::size_t power_terms = 6;
    static constexpr float powers[power_terms] = {1.5353369e-4f, 1.3398881e-3f, 9.6184378e-3f,
                                                  5.5503324e-2f, 2.4022648e-1f, 6.9314718e-1f};
};

template<>
struct exp_constants<double> {
    using bits = std::uint64_t;
    static constexpr bits rounder_bits = 0x4338000000000000, bias = 1023, mantissa = 52, lift = 54;
    static constexpr double rounder = 6755399441055744.0, least = -746.0, most = 710.0;
    static constexpr double ln2_high = 6.93145751953125e-1, ln2_low = 1.42860682030941723212e-6;
    // Taylor: the first term left out is below 2^-57
    static constexpr std::size_t terms = 12;
    static constexpr double polynomial[terms] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                                 1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                                 1.0 / 120,        1.0 / 24,        1.0 / 6,        1.0 / 2};
    // likewise of 2^r, |r| <= 1/2, but for the last term, 1
    static constexpr std::size_t power_terms = 13;
    static constexpr double powers[power_terms] = {
        1.3691488853904128e-12, 2.5678435993488206e-11, 4.4455382718708116e-10, 7.054911620801123e-09,
        1.01780860092397e-07,   1.321548679014431e-06,  1.5252733804059841e-05, 0.0001540353039338161,
        0.0013333558146428443,  0.009618129107628477,   0.05550410866482158,    0.24022650695910072,
        0.6931471805599453};
};

/// exp(r), and n above the bits of `rounder`, for x within [least, most].
template<class T, std::size_t N>
struct exp_parts {
    lane_vector<T, N> fraction;
    lane_vector<typename exp_constants<T>::bits, N> exponent;
};

template<class T, std::size_t N>
[[gnu::always_inline]] inline exp_parts<T, N> split_exponential(lane_vector<T, N> x) noexcept {
    using constants = exp_constants<T>;
    using vector = lane_vector<T, N>;
    auto const rounder = vector::all(constants::rounder);
    auto const shifted = multiply_add(x, vector::all(T(1.44269504088896340736)), rounder);
    auto const n = shifted - rounder;
    auto r = multiply_add(n, vector::all(-constants::ln2_high), x);
    r = multiply_add(n, vector::all(-constants::ln2_low), r);

    auto p = vector::all(constants::polynomial[0]);
#pragma GCC unroll 16
    for (std::size_t i = 1; i < constants::terms; ++i) p = multiply_add(p, r, vector::all(constants::polynomial[i]));
    p = multiply_add(p, r * r, r) + vector::all(1);
    return {p, bits_as<typename constants::bits>(shifted)};
}

/// 2^(x - n) and 2^n, n = round(x), for x within [-bias, bias + 1]: the power is 0 where n is -bias, and infinite where
/// it is bias + 1. The sum with `rounder` and `bias` has the power's exponent in its lowest bits.
template<class T, std::size_t N>
struct power_of_two_parts {
    lane_vector<T, N> fraction, power;
};

template<class T, std::size_t N>
[[gnu::always_inline]] inline power_of_two_parts<T, N> split_power_of_two(lane_vector<T, N> x) noexcept {
    using constants = exp_constants<T>;
    using vector = lane_vector<T, N>;
    auto const rounder = vector::all(constants::rounder + static_cast<T>(constants::bias));
    auto const shifted = x + rounder;
    auto const r = x - (shifted - rounder);
    auto p = vector::all(constants::powers[0]);
#pragma GCC unroll 16
    for (std::size_t i = 1; i < constants::power_terms; ++i) p = multiply_add(p, r, vector::all(constants::powers[i]));
    auto const exponent = bits_as<typename constants::bits>(shifted);
    return {multiply_add(p, r, vector::all(1)),
            bits_as<T>(lane_vector<typename constants::bits, N>{exponent.value << constants::mantissa})};
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// exp of every lane: at most 2 ulp from the true value over the whole range, denormal results included; overflow gives
/// infinity, underflow 0, NaN NaN.
///
/// Source: S. L. Moshier, Cephes Mathematical Library (expf: range reduction and polynomial), with the power of two
/// applied in two steps so that denormal results are rounded and not lost.
template<class T, std::size_t N>
[[gnu::always_inline]] inline lane_vector<T, N> exponential(lane_vector<T, N> x) noexcept {
    using constants = detail::exp_constants<T>;
    using bits = typename constants::bits;
    using vector = lane_vector<T, N>;
    using integers = lane_vector<bits, N>;
    auto const least = vector::all(constants::least), most = vector::all(constants::most);
    x = vector::select(x < least, least, x); // a NaN passes both
    x = vector::select(x > most, most, x);
    auto const [p, exponent] = detail::split_exponential(x);

    // 2^n = 2^half * 2^rest; each exponent field holds its share of n + 2 * bias
    integers const sum = exponent + integers::all(2 * constants::bias - constants::rounder_bits);
    integers const half{sum.value >> 1};
    integers const rest = sum - half;
    integers const first{half.value << constants::mantissa}, second{rest.value << constants::mantissa};
    return p * bits_as<T>(first) * bits_as<T>(second);
}

/// exp of every lane as `exponential` computes it, but for x <= 0, with fewer operations: there the power of two needs
/// help only where it is denormal.
template<class T, std::size_t N>
[[gnu::always_inline]] inline lane_vector<T, N> exponential_of_negative(lane_vector<T, N> x) noexcept {
    using constants = detail::exp_constants<T>;
    using vector = lane_vector<T, N>;
    using integers = lane_vector<typename constants::bits, N>;
    auto const least = vector::all(constants::least);
    auto const [p, exponent] = detail::split_exponential(vector::select(x < least, least, x));
    integers const lifted = exponent + integers::all(constants::bias + constants::lift - constants::rounder_bits);
    integers const power{lifted.value << constants::mantissa};
    return p * bits_as<T>(power) * vector::all(T{1} / static_cast<T>(std::uint64_t{1} << constants::lift));
}

/// 2^x of every lane for x <= 0, with the fewest operations: at most 2 ulp from the true value down to 2^-126, or
/// 2^-1022, and 0 where less than half of that is left; NaN gives NaN.
template<class T, std::size_t N>
[[gnu::always_inline]] inline lane_vector<T, N> power_of_two_of_negative(lane_vector<T, N> x) noexcept {
    auto const least = lane_vector<T, N>::all(-static_cast<T>(detail::exp_constants<T>::bias));
    auto const [fraction, power] = detail::split_power_of_two(lane_vector<T, N>::select(x < least, least, x));
    return fraction * power;
}

/// 1 + 2^x of every lane, likewise, for any x: at most 2 ulp from the true value; infinite from 127.5 on, or 1023.5.
template<class T, std::size_t N>
[[gnu::always_inline]] inline lane_vector<T, N> one_and_power_of_two(lane_vector<T, N> x) noexcept {
    using vector = lane_vector<T, N>;
    constexpr T bias = detail::exp_constants<T>::bias;
    auto const least = vector::all(-bias), most = vector::all(bias + 1);
    x = vector::select(x < least, least, x); // a NaN passes both
    x = vector::select(x > most, most, x);
    auto const [fraction, power] = detail::split_power_of_two(x);
    return multiply_add(fraction, power, vector::all(1));
}

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
