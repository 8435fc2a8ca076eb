// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

// Linear layers on narrow granules. A register holds some neighbouring inputs of every sample, sample by sample: so
// many neighbouring weights, read once and repeated for every sample, are its factors. Sizes are values, and the
// machine code is that of all layers.

namespace trireme::detail::inline TRIREME_ISA {

/// `Group` numbers, over and over: one load that takes no shuffle.
template<std::size_t Group, class T>
[[gnu::always_inline]] inline lane_vector<T, full_register<T>> repeated(T const* from) noexcept {
    constexpr std::size_t width = full_register<T>, bytes = Group * sizeof(T);
    using vector = lane_vector<T, width>;
    if constexpr (bytes == sizeof(long long)) {
        using whole = std::conditional_t<sizeof(T) != 0, long long, T>; // clang: aligned as T, it depends on T
        typedef whole place __attribute__((aligned(alignof(T)), may_alias));
        auto const all = lane_vector<long long, vector_bytes / bytes>::all(*reinterpret_cast<place const*>(from));
        vector x;
        std::memcpy(&x.value, &all.value, sizeof x.value);
        return x;
    }
#if defined(__AVX512F__)
    else if constexpr (vector_bytes == 64 && (bytes == 16 || bytes == 32)) {
        using place = typename lane_register<T, Group>::place;
        vector x;
        if constexpr (bytes == 16)
            asm("vbroadcastf32x4 {%1, %0|%0, %1}" : "=v"(x.value) : "m"(*reinterpret_cast<place const*>(from)));
        else
            asm("vbroadcastf64x4 {%1, %0|%0, %1}" : "=v"(x.value) : "m"(*reinterpret_cast<place const*>(from)));
        return x;
    }
#endif
#if defined(__AVX__)
    else if constexpr (vector_bytes == 32 && bytes == 16) {
        using place = typename lane_register<T, Group>::place;
        vector x;
        asm("vbroadcastf128 {%1, %0|%0, %1}" : "=x"(x.value) : "m"(*reinterpret_cast<place const*>(from)));
        return x;
    }
#endif
    else {
        T numbers[width];
        for (std::size_t i = 0; i < width; ++i) numbers[i] = from[i % Group];
        return vector::load(numbers);
    }
}

/// Inputs whose registers are copied at a time, and outputs: both copies stay in the nearest cache.
inline constexpr std::size_t narrow_inputs = 512, narrow_outputs = 256;

/// y = w x + bias for Group = full_register / lanes inputs in a register; `bias` may be null. See linear_forward.
template<std::size_t Group, class T>
TRIREME_NOINLINE void narrow_linear_forward(T const* x, T const* w, T const* bias, T* y, std::size_t inputs,
                                            std::size_t outputs) noexcept {
    constexpr std::size_t width = full_register<T>, lanes = width / Group, block = 8;
    using vector = lane_vector<T, width>;
    T groups[narrow_inputs * lanes]; // [group of inputs][lane][input]
    for (std::size_t first = 0; first < inputs; first += narrow_inputs) {
        std::size_t const count = std::min(narrow_inputs, inputs - first);
        for (std::size_t i = 0; i < count; i += Group)
            for (std::size_t lane = 0; lane < lanes; ++lane)
                for (std::size_t k = 0; k < Group; ++k)
                    groups[i * lanes + lane * Group + k] = x[(first + i + k) * lanes + lane];
        for (std::size_t o = 0; o < outputs; o += block) {
            T const* rows[block]; // beyond the last output: that once more
            for (std::size_t k = 0; k < block; ++k) rows[k] = w + std::min(o + k, outputs - 1) * inputs + first;
            vector sum[block];
#pragma GCC unroll 8
            for (std::size_t k = 0; k < block; ++k) sum[k] = vector::all(0);
            for (std::size_t i = 0; i < count; i += Group) {
                auto const input = vector::load(groups + i * lanes);
#pragma GCC unroll 8
                for (std::size_t k = 0; k < block; ++k)
                    sum[k] = multiply_add(repeated<Group>(rows[k] + i), input, sum[k]);
            }
            for (std::size_t k = 0; k < std::min(block, outputs - o); ++k) {
                T numbers[width];
                sum[k].store(numbers);
                T* const to = y + (o + k) * lanes;
                for (std::size_t lane = 0; lane < lanes; ++lane) {
                    T all = first != 0 ? to[lane] : bias != nullptr ? bias[o + k] : T{0};
                    for (std::size_t j = 0; j < Group; ++j) all += numbers[lane * Group + j];
                    to[lane] = all;
                }
            }
        }
    }
}

/// dx = w^T dy; overwrites dx. See linear_backward_input.
template<std::size_t Group, class T>
TRIREME_NOINLINE void narrow_linear_backward_input(T const* w, T const* dy, T* dx, std::size_t inputs,
                                                   std::size_t outputs) noexcept {
    constexpr std::size_t width = full_register<T>, lanes = width / Group, block = 8;
    using vector = lane_vector<T, width>;
    T gradients[narrow_outputs * width]; // [output][lane][Group times]
    for (std::size_t first = 0; first < outputs; first += narrow_outputs) {
        std::size_t const count = std::min(narrow_outputs, outputs - first);
        for (std::size_t o = 0; o < count; ++o)
            for (std::size_t n = 0; n < width; ++n) gradients[o * width + n] = dy[(first + o) * lanes + n / Group];
        for (std::size_t i = 0; i < inputs; i += block * Group) {
            std::size_t const at = std::min(i, inputs - block * Group), done = (i - at) / Group;
            vector sum[block];
#pragma GCC unroll 8
            for (std::size_t k = 0; k < block; ++k) sum[k] = vector::all(0);
            T const* weights = w + first * inputs + at;
            for (std::size_t o = 0; o < count; ++o, weights += inputs) {
                auto const gradient = vector::load(gradients + o * width);
#pragma GCC unroll 8
                for (std::size_t k = 0; k < block; ++k)
                    sum[k] = multiply_add(repeated<Group>(weights + k * Group), gradient, sum[k]);
            }
#pragma GCC unroll 8
            for (std::size_t k = 0; k < block; ++k) {
                T numbers[width];
                sum[k].store(numbers);
                if (k < done && first != 0) continue; // added already
                T* const to = dx + (at + k * Group) * lanes;
                for (std::size_t j = 0; j < Group; ++j)
                    for (std::size_t lane = 0; lane < lanes; ++lane) {
                        T const value = numbers[lane * Group + j];
                        to[j * lanes + lane] = first != 0 ? to[j * lanes + lane] + value : value;
                    }
            }
        }
    }
}

/// dw += dy x^T and db += dy, summed over the lanes; db may be null. See linear_backward_weights.
template<class T>
TRIREME_NOINLINE void narrow_linear_backward_weights(T const* x, T const* dy, T* dw, T* db, std::size_t inputs,
                                                     std::size_t outputs, std::size_t lanes) noexcept {
    constexpr std::size_t width = full_register<T>, strip = 2 * width, block = 8;
    using vector = lane_vector<T, width>;
    for (std::size_t o = 0; db != nullptr && o < outputs; ++o)
        for (std::size_t lane = 0; lane < lanes; ++lane) db[o] += dy[o * lanes + lane];
    T gradients[width / 2][narrow_outputs], values[width / 2][strip]; // [lane][output] and [lane][input]
    for (std::size_t first = 0; first < outputs; first += narrow_outputs) {
        std::size_t const count = std::min(narrow_outputs, outputs - first), end = (count + block - 1) / block * block;
        for (std::size_t lane = 0; lane < lanes; ++lane)
            for (std::size_t o = 0; o < end; ++o)
                gradients[lane][o] = o < count ? dy[(first + o) * lanes + lane] : T{0};
        for (std::size_t i = 0; i < inputs; i += strip) {
            // the last strip begins earlier; what it shares with its neighbour does not count twice
            std::size_t const at = std::min(i, inputs - strip);
            for (std::size_t n = 0; n < strip; ++n)
                for (std::size_t lane = 0; lane < lanes; ++lane)
                    values[lane][n] = at + n < i ? T{0} : x[(at + n) * lanes + lane];
            for (std::size_t o = 0; o < count; o += block) {
                vector sum[block][2];
#pragma GCC unroll 8
                for (std::size_t k = 0; k < block; ++k) sum[k][0] = sum[k][1] = vector::all(0);
                for (std::size_t lane = 0; lane < lanes; ++lane) {
                    auto const left = vector::load(values[lane]), right = vector::load(values[lane] + width);
#pragma GCC unroll 8
                    for (std::size_t k = 0; k < block; ++k) {
                        auto const gradient = vector::all(gradients[lane][o + k]);
                        sum[k][0] = multiply_add(gradient, left, sum[k][0]);
                        sum[k][1] = multiply_add(gradient, right, sum[k][1]);
                    }
                }
#pragma GCC unroll 8
                for (std::size_t k = 0; k < block; ++k) {
                    if (o + k >= count) break;
                    T* const to = dw + (first + o + k) * inputs + at;
                    (vector::load(to) + sum[k][0]).store(to);
                    (vector::load(to + width) + sum[k][1]).store(to + width);
                }
            }
        }
    }
}

} // namespace trireme::detail::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
