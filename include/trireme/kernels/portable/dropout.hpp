// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/device/host/random_bits.hpp>
#include <trireme/kernels/dropout_draw.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace trireme::detail::inline TRIREME_ISA {

/// Numbers that dropout_factors may write for `count` values.
constexpr std::size_t dropout_room(std::size_t count) noexcept {
    return (count + 6) / (4 * blocks_at_once) * (4 * blocks_at_once) + 4 * blocks_at_once;
}

/// Writes the factors of `count` values from number `first` on, scale or 0, and of those that share random bits with
/// them; returns the place of the first.
template<class T>
[[gnu::always_inline]] inline T const* dropout_factors(dropout_draw<T> const& draw, std::uint64_t first,
                                                       std::size_t count, T* to) noexcept {
    auto const random = draw.random();
    auto const begin = first / 4, words = (first + count + 3) / 4 - begin;
    auto const threshold = draw.threshold;
    T const scale = draw.scale;
    for (std::size_t i = 0; i < words; i += blocks_at_once) {
        std::uint32_t bits[4 * blocks_at_once];
        random_words(random, begin + i, bits);
        if constexpr (sizeof(T) == sizeof(std::uint32_t)) {
            using word = lane_vector<std::uint32_t, full_register<std::uint32_t>>;
            using vector = lane_vector<T, word::size>;
            for (std::size_t k = 0; k < 4 * blocks_at_once; k += word::size)
                vector::select(word::load(bits + k) < word::all(threshold), vector::all(0), vector::all(scale))
                    .store(to + 4 * i + k);
        } else {
            for (std::size_t k = 0; k < 4 * blocks_at_once; ++k) to[4 * i + k] = bits[k] >= threshold ? scale : T(0);
        }
    }
    return to + first % 4;
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = x * scale where a value is not dropped, else 0; backward dx from dy alike. y may be x. Cost: 10 rounds of Philox
/// per 4 values.
template<std::size_t Size, std::size_t Lanes, class T>
    requires(Lanes > 1)
TRIREME_NOINLINE void dropout_forward(portable, T const* x, dropout_draw<T> const& draw, T* y) noexcept {
    auto const random = draw.random();
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        auto const begin = (draw.granule.first + lane) * Size;
        for (std::size_t i = 0; i < Size;) {
            auto const words = random.words((begin + i) / 4);
            auto const skip = (begin + i) % 4, end = std::min(Size, i + 4 - skip);
            for (auto k = skip; i < end; ++i, ++k)
                y[i * Lanes + lane] = words[k] >= draw.threshold ? x[i * Lanes + lane] * draw.scale : T(0);
        }
    }
}

/// y, likewise, of one sample, whose values fill registers.
template<std::size_t Size, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void dropout_forward(portable, T const* x, dropout_draw<T> const& draw, T* y) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    constexpr std::size_t piece = std::min<std::size_t>(Size, 512);
    T room[detail::dropout_room(piece)];
    for (std::size_t i = 0; i < Size; i += piece) {
        auto const count = std::min(piece, Size - i);
        T const* const factors = detail::dropout_factors(draw, draw.granule.first * Size + i, count, room);
        for_registers<vector>(count, [=](std::size_t k, auto n) {
            auto const factor = vector::load(factors + k, n), none = vector::all(0);
            vector::select(factor == none, none, vector::load(x + i + k, n) * factor).store(y + i + k, n);
        });
    }
}

} // namespace trireme::inline TRIREME_ISA
