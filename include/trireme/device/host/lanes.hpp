// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/isa.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

namespace trireme::detail::inline TRIREME_ISA {

/// `type` is computed with, `place` is read and written: any alignment, and it may be part of an array of T.
template<class T, std::size_t N>
struct lane_register {
    typedef T type __attribute__((vector_size(N * sizeof(T))));
    typedef T place __attribute__((vector_size(N * sizeof(T)), aligned(alignof(T)), may_alias));
};
template<class T>
struct lane_register<T, 1> {
    using type = T;
    using place = T;
};

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// N numbers in one register, N a power of two and never more than a register holds: wider types would be split by the
/// compiler through memory, and could not be passed in registers. Everything here disappears by inlining.
template<class T, std::size_t N>
struct lane_vector {
    static_assert(N != 0 && (N & (N - 1)) == 0 && N * sizeof(T) <= 64);
    using register_type = typename detail::lane_register<T, N>::type;
    using place = typename detail::lane_register<T, N>::place;
    static constexpr std::size_t size = N;

    register_type value;

    /// x in every lane. x - 0 is x, even for -0.0, and compilers know it; 0 + x would cost an addition.
    [[gnu::always_inline]] static lane_vector all(T x) noexcept { return {x - register_type{}}; }

    // Through a pointer and not by memcpy: no local variable, which sanitizers would watch in every unrolled copy.
    [[gnu::always_inline]] static lane_vector load(T const* from) noexcept {
        return {*reinterpret_cast<place const*>(from)};
    }
    [[gnu::always_inline]] void store(T* to) const noexcept { *reinterpret_cast<place*>(to) = value; }

    /// The first `count` numbers, at most N, with zeros behind them: the end of an array runs through the same
    /// arithmetic as its middle, so that a number's place in the array never changes its bits.
    [[gnu::always_inline]] static lane_vector load(T const* from, std::size_t count) noexcept {
        if (count >= N) return load(from);
        T some[N] = {};
        for (std::size_t i = 0; i < count; ++i) some[i] = from[i];
        return load(some);
    }
    [[gnu::always_inline]] void store(T* to, std::size_t count) const noexcept {
        if (count >= N) return store(to);
        T some[N];
        store(some);
        for (std::size_t i = 0; i < count; ++i) to[i] = some[i];
    }

    /// The first `count` lanes, with zeros behind them.
    [[gnu::always_inline]] lane_vector first(std::size_t count) const noexcept {
        if (count >= N) return *this;
        T some[N];
        store(some);
        for (std::size_t i = count; i < N; ++i) some[i] = 0;
        return load(some);
    }

    [[gnu::always_inline]] friend lane_vector operator+(lane_vector a, lane_vector b) noexcept {
        return {a.value + b.value};
    }
    [[gnu::always_inline]] friend lane_vector operator-(lane_vector a, lane_vector b) noexcept {
        return {a.value - b.value};
    }
    [[gnu::always_inline]] friend lane_vector operator*(lane_vector a, lane_vector b) noexcept {
        return {a.value * b.value};
    }
    [[gnu::always_inline]] friend lane_vector operator/(lane_vector a, lane_vector b) noexcept {
        return {a.value / b.value};
    }
    [[gnu::always_inline]] friend lane_vector operator-(lane_vector a) noexcept { return {-a.value}; }

    /// a * b + c. One expression, because clang fuses only within one; whether it is fused is the compiler's choice.
    [[gnu::always_inline]] friend lane_vector multiply_add(lane_vector a, lane_vector b, lane_vector c) noexcept {
        return {a.value * b.value + c.value};
    }

    // Comparisons give a mask for select, | and &; a NaN compares as in scalar code. The plus makes one number's bool
    // an int, for which compilers accept | and & without a word.
    [[gnu::always_inline]] friend auto operator<(lane_vector a, lane_vector b) noexcept { return +(a.value < b.value); }
    [[gnu::always_inline]] friend auto operator>(lane_vector a, lane_vector b) noexcept { return +(a.value > b.value); }
    [[gnu::always_inline]] friend auto operator<=(lane_vector a, lane_vector b) noexcept {
        return +(a.value <= b.value);
    }
    [[gnu::always_inline]] friend auto operator==(lane_vector a, lane_vector b) noexcept {
        return +(a.value == b.value);
    }
    [[gnu::always_inline]] friend auto operator!=(lane_vector a, lane_vector b) noexcept {
        return +(a.value != b.value);
    }

    template<class Mask>
    [[gnu::always_inline]] static lane_vector select(Mask mask, lane_vector yes, lane_vector no) noexcept {
        return {mask ? yes.value : no.value};
    }

    /// The sum of all lanes in one fixed order: halves are added until one number is left, so lane i meets i + N/2.
    [[gnu::always_inline]] T sum() const noexcept {
        if constexpr (N == 1) {
            return value;
        } else {
            using half = lane_vector<T, N / 2>;
            T numbers[N];
            store(numbers);
            return (half::load(numbers) + half::load(numbers + N / 2)).sum();
        }
    }
};

/// Reads the bits of a register as numbers of another type of equal size.
template<class To, class T, std::size_t N>
[[gnu::always_inline]] inline lane_vector<To, N> bits_as(lane_vector<T, N> from) noexcept {
    static_assert(sizeof(To) == sizeof(T));
    lane_vector<To, N> to;
    std::memcpy(&to.value, &from.value, sizeof to.value);
    return to;
}

/// The square roots of all lanes, by the instruction itself: as long as errno must be set, compilers make a call of
/// each. Braces hold the operands in both orders of assemblers, for -masm=intel turns them round.
template<class T, std::size_t N>
[[gnu::always_inline]] inline lane_vector<T, N> square_root(lane_vector<T, N> x) noexcept {
    constexpr std::size_t bytes = N * sizeof(T);
#if defined(__AVX512F__)
    constexpr std::size_t most = 64;
#elif defined(__AVX__)
    constexpr std::size_t most = 32;
#elif defined(__SSE2__)
    constexpr std::size_t most = 16;
#else
    constexpr std::size_t most = 0;
#endif
    if constexpr (bytes >= 16 && bytes <= most) {
#if defined(__AVX512F__)
        if constexpr (sizeof(T) == 4)
            asm("vsqrtps {%1, %0|%0, %1}" : "=v"(x.value) : "v"(x.value));
        else
            asm("vsqrtpd {%1, %0|%0, %1}" : "=v"(x.value) : "v"(x.value));
#elif defined(__AVX__)
        if constexpr (sizeof(T) == 4)
            asm("vsqrtps {%1, %0|%0, %1}" : "=x"(x.value) : "x"(x.value));
        else
            asm("vsqrtpd {%1, %0|%0, %1}" : "=x"(x.value) : "x"(x.value));
#elif defined(__SSE2__)
        if constexpr (sizeof(T) == 4)
            asm("sqrtps {%1, %0|%0, %1}" : "=x"(x.value) : "x"(x.value));
        else
            asm("sqrtpd {%1, %0|%0, %1}" : "=x"(x.value) : "x"(x.value));
#endif
        return x;
    } else {
        T numbers[N];
        x.store(numbers);
        for (auto& number : numbers) number = std::sqrt(number);
        return lane_vector<T, N>::load(numbers);
    }
}

/// x, which stays in its register: GCC reads what comes from memory again for each use, where a loop may wait for
/// loads.
template<class T, std::size_t N>
[[gnu::always_inline]] inline lane_vector<T, N> kept(lane_vector<T, N> x) noexcept {
#if defined(__AVX512F__)
    asm("" : "+v"(x.value));
#elif defined(__SSE2__)
    asm("" : "+x"(x.value));
#endif
    return x;
}

/// Function add_product is multiply_add for a sum that may be the only one of its loop, or a single number. For some
/// processors GCC fuses the sums of a loop that has several, but leaves a lone one (--param=avoid-fma-max-bits), and it
/// multiplies single numbers by registers, without the additions: a row would get other bits alone than among others.
/// GCC does not see that a kept sum goes round its loop.
template<class T, std::size_t N>
[[gnu::always_inline]] inline lane_vector<T, N> add_product(lane_vector<T, N> a, lane_vector<T, N> b,
                                                            lane_vector<T, N> sum) noexcept {
#if defined(__clang__) // fuses every expression, and has no asm for registers of 8 bytes
    return multiply_add(a, b, sum);
#else
    return kept(multiply_add(a, b, sum));
#endif
}

/// Swaps blocks of D numbers across two rows: those of `above` that lie right with those of `below` that lie left.
template<std::size_t D, class T, std::size_t N>
[[gnu::always_inline]] inline void swap_blocks(lane_vector<T, N>& above, lane_vector<T, N>& below) noexcept {
#if defined(__NVCC__) // takes the pack of indices for a single one
    T a[N], b[N];
    above.store(a);
    below.store(b);
    for (std::size_t j = 0; j < N; ++j)
        if ((j & D) == 0) std::swap(a[j + D], b[j]);
    above = lane_vector<T, N>::load(a);
    below = lane_vector<T, N>::load(b);
#else
    [&]<std::size_t... At>(std::index_sequence<At...>) {
        auto const a = above.value, b = below.value;
        above.value = __builtin_shufflevector(a, b, ((At & D) == 0 ? At : N + At - D)...);
        below.value = __builtin_shufflevector(a, b, ((At & D) == 0 ? At + D : N + At)...);
    }(std::make_index_sequence<N>{});
#endif
}

/// Rows become columns: afterwards number j of rows[i] is what number i of rows[j] was. D is for the recursion.
/// Cost: log2(N) rounds of N shuffles. Without loops and copies of `rows`, which compilers would keep in memory.
template<std::size_t D = 1, class T, std::size_t N>
[[gnu::always_inline]] inline void transpose(lane_vector<T, N> (&rows)[N]) noexcept {
    if constexpr (D < N) {
        [&]<std::size_t... Row>(std::index_sequence<Row...>) {
            (((Row & D) == 0 ? swap_blocks<D>(rows[Row], rows[Row | D]) : void()), ...);
        }(std::make_index_sequence<N>{});
        transpose<2 * D>(rows);
    }
}

/// Copies N numbers by whole registers, the last of which may overlap its neighbour.
template<std::size_t N, class T>
[[gnu::always_inline]] inline void copy_numbers(T const* from, T* to) noexcept {
    constexpr std::size_t width = std::min(vector_bytes / sizeof(T), std::bit_floor(N));
    using vector = lane_vector<T, width>;
#pragma GCC unroll 4
    for (std::size_t i = 0; i + width <= N; i += width) vector::load(from + i).store(to + i);
    if constexpr (N % width != 0) vector::load(from + N - width).store(to + N - width);
}

/// Adds N numbers to others by registers that are halved towards the end.
template<std::size_t N, class T>
[[gnu::always_inline]] inline void add_numbers(T const* from, T* to) noexcept {
    if constexpr (N != 0) {
        constexpr std::size_t width = std::min(vector_bytes / sizeof(T), std::bit_floor(N)), full = N / width * width;
        using vector = lane_vector<T, width>;
#pragma GCC unroll 4
        for (std::size_t i = 0; i < full; i += width) (vector::load(to + i) + vector::load(from + i)).store(to + i);
        add_numbers<N - full>(from + full, to + full);
    }
}

/// The number of samples in a granule of `Lanes` that share a register: all, or the largest power of two that divides
/// them and fits. A wider granule takes several registers.
template<class T, std::size_t Lanes>
inline constexpr std::size_t register_lanes = [] {
    std::size_t width = vector_bytes / sizeof(T);
    while (Lanes % width != 0) width /= 2;
    return width;
}();

/// Numbers of one register, for elementwise work where lanes do not matter.
template<class T>
inline constexpr std::size_t full_register = vector_bytes / sizeof(T);

/// Walks n numbers a register at a time, as `f(i, count)` for the `count` numbers from i on: a constant, but for the
/// last ones, so that the loads and stores of an array's middle have no condition.
template<class Vector, class F>
[[gnu::always_inline]] inline void for_registers(std::size_t n, F const& f) noexcept {
    constexpr std::integral_constant<std::size_t, Vector::size> all{};
    std::size_t i = 0;
    for (; i + 4 * all <= n; i += 4 * all) {
#pragma GCC unroll 4
        for (std::size_t k = 0; k < 4; ++k) f(i + k * all, all);
    }
    for (; i + all <= n; i += all) f(i, all);
    if (i < n) f(i, n - i);
}

/// Registers that an inner loop may keep sums in: three quarters of those the instruction set has.
inline constexpr std::size_t accumulators = vector_bytes == 64 ? 24 : 12;

/// The block length that cuts n things into the fewest blocks of at most `most`, as equal as possible.
constexpr std::size_t even_block(std::size_t n, std::size_t most) noexcept {
    auto const blocks = (n + most - 1) / most;
    return blocks == 0 ? 1 : (n + blocks - 1) / blocks;
}

/// The longest block length up to `most` that divides n, so that the last block needs no code of its own; that of
/// even_block instead, if this is shorter than two thirds of `most`.
constexpr std::size_t dividing_block(std::size_t n, std::size_t most) noexcept {
    for (auto length = most; 3 * length >= 2 * most; --length)
        if (n % length == 0) return length;
    return even_block(n, most);
}

template<std::size_t N>
using block_length = std::integral_constant<std::size_t, N>;

/// Walks [First, Last) in even blocks of at most `Most`: f(block_length<N>, begin). The length is known to the
/// compiler, so that a block's sums stay in registers.
template<std::size_t First, std::size_t Last, std::size_t Most, class F>
[[gnu::always_inline]] inline void for_blocks(F const& f) noexcept {
    if constexpr (First < Last) {
        constexpr std::size_t length = even_block(Last - First, Most), rest = (Last - First) % length;
        std::size_t begin = First;
        for (; begin + length <= Last; begin += length) f(block_length<length>{}, begin);
        if constexpr (rest != 0) f(block_length<rest>{}, begin);
    }
}

/// Walks N channels, of which there may be many, in blocks of at most `Most`, likewise.
template<std::size_t N, std::size_t Most, class F>
[[gnu::always_inline]] inline void for_channels(F const& f) noexcept {
    for_blocks<0, N, dividing_block(N, Most)>(f);
}

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
