// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/device/host/lanes.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trireme::detail::inline TRIREME_ISA {

/// N bf16 in memory, and in a register, each in the upper or lower half of 32 bits.
template<std::size_t N>
struct bf16_register {
    typedef std::uint16_t place __attribute__((vector_size(N * 2), aligned(2), may_alias));
    typedef std::uint16_t half __attribute__((vector_size(N * 2)));
    typedef std::uint32_t whole __attribute__((vector_size(N * 4)));
};

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

// Registers of numbers whose place in memory may be narrower than they are: bf16 is widened as it is read, and rounded
// to the nearest, ties to even, as it is written.

/// Registers to compute with where values of type A lie in memory.
template<class A>
using reckoned_vector = lane_vector<accumulate_t<A>, full_register<accumulate_t<A>>>;

/// The first `count` of the values at `from`, at most Vector::size; zeros behind them.
template<class Vector, class A>
[[gnu::always_inline]] inline Vector read_numbers(A const* from, std::size_t count = Vector::size) noexcept {
    if constexpr (std::is_same_v<A, bf16>) {
        static_assert(std::is_same_v<Vector, lane_vector<float, Vector::size>>);
        using bits = detail::bf16_register<Vector::size>;
        bf16 some[Vector::size] = {};
        if (count < Vector::size) {
            for (std::size_t i = 0; i < count; ++i) some[i] = from[i];
            from = some;
        }
        auto const upper =
            __builtin_convertvector(*reinterpret_cast<typename bits::place const*>(from), typename bits::whole) << 16;
        return {reinterpret_cast<typename Vector::register_type>(upper)};
    } else {
        return Vector::load(from, count);
    }
}

/// The first `count` numbers of v, to where values of type A lie.
template<class Vector, class A>
[[gnu::always_inline]] inline void write_numbers(Vector v, A* to, std::size_t count = Vector::size) noexcept {
    if constexpr (std::is_same_v<A, bf16>) {
        static_assert(std::is_same_v<Vector, lane_vector<float, Vector::size>>);
        using bits = detail::bf16_register<Vector::size>;
        auto const all = reinterpret_cast<typename bits::whole>(v.value), upper = all >> 16;
        auto const rounded = (all + 0x7FFF + (upper & 1)) >> 16;
        auto const half = __builtin_convertvector(v.value != v.value ? upper | 0x40 : rounded, typename bits::half);
        if (count >= Vector::size) {
            *reinterpret_cast<typename bits::place*>(to) = half;
        } else {
            for (std::size_t i = 0; i < count; ++i) to[i].bits = half[i];
        }
    } else {
        v.store(to, count);
    }
}

/// The numbers as they would be read again.
template<class A, class Vector>
[[gnu::always_inline]] inline Vector as_stored(Vector v) noexcept {
    if constexpr (std::is_same_v<A, bf16>) {
        bf16 some[Vector::size];
        write_numbers(v, some);
        return read_numbers<Vector>(static_cast<bf16 const*>(some));
    } else {
        return v;
    }
}

} // namespace trireme::inline TRIREME_ISA
