// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trireme {

/// The upper half of a float: 8 bits of exponent, 7 of fraction. Storage only; arithmetic is done in float, and every
/// result is rounded to the nearest, ties to even. A NaN stays one. (std::bit_cast is no function of device code; what
/// it is made of is.) It is a dtype as well, as f32 is.
struct bf16 {
    using value_type = bf16;
    static constexpr char const* name = "bf16";
    static constexpr std::size_t bytes = 2;

    std::uint16_t bits = 0;

    constexpr bf16() = default;
    TRIREME_HOST_DEVICE constexpr explicit bf16(float x) noexcept {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        if (!__builtin_is_constant_evaluated()) {
            std::uint16_t rounded = 0;
            asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(x));
            bits = rounded; // every NaN becomes the same one
            return;
        }
#endif
        auto const all = __builtin_bit_cast(std::uint32_t, x);
        bits = static_cast<std::uint16_t>(x != x ? (all >> 16) | 0x40 : (all + 0x7FFF + (all >> 16 & 1)) >> 16);
    }
    TRIREME_HOST_DEVICE constexpr explicit operator float() const noexcept {
        return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
    }
    TRIREME_HOST_DEVICE friend constexpr bool operator==(bf16 a, bf16 b) noexcept {
        return static_cast<float>(a) == static_cast<float>(b);
    }
};

/// The type in which values of T are computed with, and sums of them taken.
template<class T>
using accumulate_t = std::conditional_t<std::is_same_v<T, bf16>, float, T>;

} // namespace trireme
