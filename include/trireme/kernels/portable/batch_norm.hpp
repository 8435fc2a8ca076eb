// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/batch_norm_numbers.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

namespace trireme::detail::inline TRIREME_ISA {

/// Walks the values of one channel, register by register: f(k, i, mask) at i, k being one of four accumulators by turns
/// and mask the registers' lanes that count.
template<std::size_t Positions, std::size_t Lanes, class T, class F>
[[gnu::always_inline]] inline void for_channel(std::size_t count, F const& f) noexcept {
    constexpr std::size_t width = register_lanes<T, Lanes>;
    using vector = lane_vector<T, width>;
    for (std::size_t lane = 0; lane < Lanes; lane += width) {
        T counts[width];
        for (std::size_t k = 0; k < width; ++k) counts[k] = lane + k < count ? T(1) : T(0);
        auto const mask = vector::load(counts);
        std::size_t i = 0;
        for (; i + 4 <= Positions; i += 4) {
#pragma GCC unroll 4
            for (std::size_t k = 0; k < 4; ++k) f(k, (i + k) * Lanes + lane, mask);
        }
        for (; i < Positions; ++i) f(i % 4, i * Lanes + lane, mask);
    }
}

/// Four sums, added in pairs.
template<class Vector>
[[gnu::always_inline]] inline auto total(Vector const (&sums)[4]) noexcept {
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum();
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// The samples of a granule join those before it in the mean and the sum of squared differences from
/// it, of every channel. x: C x positions x Lanes. Each granule takes its own mean first, and two groups are joined as
/// in Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979, so that
/// nothing cancels. Cost: the values are read twice, the second time from the cache.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void batch_norm_gather(portable, T const* x, batch_norm_numbers<T> const& n) noexcept {
    auto const count = n.granule.count, before = n.granule.first;
    T *const mean = n.mean, *const squares = n.deviation;
    using vector = lane_vector<T, register_lanes<T, Lanes>>;
    auto const here = static_cast<T>(count * G::positions), there = static_cast<T>(before * G::positions);
    for (std::size_t c = 0; c < G::channels; ++c) {
        T const* const values = x + c * G::positions * Lanes;
        vector sums[4] = {vector::all(0), vector::all(0), vector::all(0), vector::all(0)};
        detail::for_channel<G::positions, Lanes, T>(count, [&](std::size_t k, std::size_t i, vector mask) {
            sums[k] = multiply_add(vector::load(values + i), mask, sums[k]);
        });
        T const own = detail::total(sums) / here;
        for (auto& sum : sums) sum = vector::all(0);
        detail::for_channel<G::positions, Lanes, T>(count, [&](std::size_t k, std::size_t i, vector mask) {
            auto const apart = (vector::load(values + i) - vector::all(own)) * mask;
            sums[k] = multiply_add(apart, apart, sums[k]);
        });
        T const own_squares = detail::total(sums);
        if (before == 0) {
            mean[c] = own;
            squares[c] = own_squares;
            continue;
        }
        T const apart = own - mean[c];
        mean[c] += apart * here / (here + there);
        squares[c] += own_squares + apart * apart * here * there / (here + there);
    }
}

/// y = weight (x - mean) deviation + bias, of every channel; deviation is 1 / sqrt(variance + epsilon).
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void batch_norm_forward(portable, T const* x, batch_norm_numbers<T> const& n, T* y) noexcept {
    T const *const mean = n.mean, *const deviation = n.deviation, *const weight = n.weight, *const bias = n.bias;
    using vector = lane_vector<T, full_register<T>>;
    for (std::size_t c = 0; c < G::channels; ++c) {
        auto const middle = vector::all(mean[c]), scale = vector::all(weight[c] * deviation[c]),
                   shift = vector::all(bias[c]);
        auto const at = c * G::positions * Lanes;
        for_registers<vector>(G::positions * Lanes, [=](std::size_t i, auto some) {
            multiply_add(vector::load(x + at + i, some) - middle, scale, shift).store(y + at + i, some);
        });
    }
}

/// Adds to sums[c] those of dy, to sums[C + c] those of dy times the normalised x; the first granule begins them.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void batch_norm_backward_gather(portable, T const* x, T const* dy,
                                                 batch_norm_numbers<T> const& n) noexcept {
    auto const count = n.granule.count, before = n.granule.first;
    T const *const mean = n.mean, *const deviation = n.deviation;
    T* const sums = n.sums;
    using vector = lane_vector<T, register_lanes<T, Lanes>>;
    for (std::size_t c = 0; c < G::channels; ++c) {
        auto const at = c * G::positions * Lanes;
        auto const middle = vector::all(mean[c]);
        vector plain[4], with_x[4];
        for (auto& sum : plain) sum = vector::all(0);
        for (auto& sum : with_x) sum = vector::all(0);
        detail::for_channel<G::positions, Lanes, T>(count, [&](std::size_t k, std::size_t i, vector mask) {
            auto const gradient = vector::load(dy + at + i) * mask;
            plain[k] = plain[k] + gradient;
            with_x[k] = multiply_add(gradient, vector::load(x + at + i) - middle, with_x[k]);
        });
        T const sum = detail::total(plain), sum_with_x = detail::total(with_x) * deviation[c];
        sums[c] = before == 0 ? sum : sums[c] + sum;
        sums[G::channels + c] = before == 0 ? sum_with_x : sums[G::channels + c] + sum_with_x;
    }
}

/// dx = weight deviation (dy - mean of dy - normalised x times mean of dy times it); zero for lanes without a sample,
/// for those must not reach the gradients of the layers before. dx may be dy.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void batch_norm_backward_input(portable, T const* x, T const* dy, batch_norm_numbers<T> const& n,
                                                T* dx) noexcept {
    auto const count = n.granule.count;
    T const *const mean = n.mean, *const deviation = n.deviation, *const means = n.sums, *const weight = n.weight;
    using vector = lane_vector<T, register_lanes<T, Lanes>>;
    for (std::size_t c = 0; c < G::channels; ++c) {
        auto const at = c * G::positions * Lanes;
        T const factor = weight[c] * deviation[c];
        auto const scale = vector::all(factor), middle = vector::all(mean[c]),
                   slope = vector::all(-factor * deviation[c] * means[G::channels + c]),
                   shift = vector::all(-factor * means[c]);
        detail::for_channel<G::positions, Lanes, T>(count, [&](std::size_t, std::size_t i, vector mask) {
            auto const by_x = multiply_add(vector::load(x + at + i) - middle, slope, shift);
            (multiply_add(vector::load(dy + at + i), scale, by_x) * mask).store(dx + at + i);
        });
    }
}

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
