// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

// Block programs share these helpers. Sizes within a block are 32 bits wide, which GPUs divide much faster than 64.
namespace trireme::blocks {

using u32 = std::uint32_t;

constexpr u32 least(u32 a, u32 b) noexcept { return a < b ? a : b; }
constexpr u32 most(u32 a, u32 b) noexcept { return a < b ? b : a; }
TRIREME_HOST_DEVICE constexpr u32 divide_up(u32 a, u32 b) noexcept { return (a + b - 1) / b; }
/// The least part of which no more are needed for `all` than of `part`.
constexpr u32 evened(u32 all, u32 part) noexcept { return divide_up(all, divide_up(all, part)); }

/// Tokens are numbers among the values between layers. In bf16, which has no odd ones above 256, the bits are the
/// number.
template<class A>
TRIREME_HOST_DEVICE A token_as(u32 number) {
    if constexpr (std::is_same_v<A, bf16>) {
        bf16 token;
        token.bits = static_cast<std::uint16_t>(number);
        return token;
    } else {
        return static_cast<A>(number);
    }
}
template<class A>
TRIREME_HOST_DEVICE u32 number_of(A token) {
    if constexpr (std::is_same_v<A, bf16>)
        return token.bits;
    else
        return static_cast<u32>(token);
}

/// Four numbers that are moved by one instruction.
template<class A>
struct alignas(4 * sizeof(A) < 16 ? 4 * sizeof(A) : 16) quad {
    A v[4];
};

/// A row of four that begins at `place` has so many of a line's `Width` numbers.
template<u32 Width>
TRIREME_HOST_DEVICE u32 in_row_of_four(u32 place) {
    if (place + 4 <= Width) return 4;
    return place < Width ? Width - place : 0;
}

/// Stores the first `count` of four numbers, side by side, in one go where it can be done. `Whole` says that `to` is a
/// multiple of four numbers behind the array's beginning, which may itself stand anywhere.
template<bool Whole, class T, class A>
TRIREME_HOST_DEVICE void store_row(T* to, A const (&from)[4], u32 count) {
    if constexpr (Whole)
        if (count == 4 && reinterpret_cast<std::uintptr_t>(to) % alignof(quad<T>) == 0) {
            *reinterpret_cast<quad<T>*>(to) = {static_cast<T>(from[0]), static_cast<T>(from[1]),
                                               static_cast<T>(from[2]), static_cast<T>(from[3])};
            return;
        }
    for (u32 i = 0; i < 4; ++i)
        if (i < count) to[i] = static_cast<T>(from[i]);
}

/// Loads the first `count` of four numbers, side by side, in one go where it can be done; the others are 0. `Whole`: as
/// of store_row.
template<bool Whole, class T, class A>
TRIREME_HOST_DEVICE void load_row(A (&to)[4], T const* from, u32 count) {
    if constexpr (Whole)
        if (count == 4 && reinterpret_cast<std::uintptr_t>(from) % alignof(quad<T>) == 0) {
            quad<T> const all = *reinterpret_cast<quad<T> const*>(from);
            for (u32 i = 0; i < 4; ++i) to[i] = static_cast<A>(all.v[i]);
            return;
        }
    for (u32 i = 0; i < 4; ++i) to[i] = i < count ? static_cast<A>(from[i]) : A(0);
}

/// Values side by side: 16 bytes, which one instruction moves, or N. They are kept as words: compilers of devices take
/// narrow values apart where they are loaded, and so wait for each load before the next.
template<class A, u32 N = 16 / sizeof(A)>
struct [[gnu::may_alias]] alignas(N * sizeof(A) < 16 ? alignof(A) : 16) values_at_once {
    static constexpr u32 count = N;
    static constexpr std::size_t bytes = N * sizeof(A);
    using word = std::conditional_t<bytes % sizeof(u32) == 0, u32, A>;

    word words[bytes / sizeof(word)];

    TRIREME_HOST_DEVICE A operator[](u32 j) const {
        A value;
        std::memcpy(&value, reinterpret_cast<unsigned char const*>(words) + j * sizeof(A), sizeof(A));
        return value;
    }
    /// Value j was 0.
    TRIREME_HOST_DEVICE void set(u32 j, A value) {
        if constexpr (sizeof(A) < sizeof(word)) {
            constexpr u32 of_word = sizeof(word) / sizeof(A);
            std::uint16_t bits;
            static_assert(sizeof bits == sizeof value);
            std::memcpy(&bits, &value, sizeof value);
            words[j / of_word] |= u32{bits} << j % of_word * 16;
        } else {
            std::memcpy(reinterpret_cast<unsigned char*>(words) + j * sizeof(A), &value, sizeof(A));
        }
    }
    /// From and to an address that can_move.
    TRIREME_HOST_DEVICE void load(A const* from) { *this = *reinterpret_cast<values_at_once const*>(from); }
    TRIREME_HOST_DEVICE void store(A* to) const {
#if defined(__CUDA_ARCH__) // nvcc takes an assignment apart, if it is not the first of several
        static_assert(bytes == 16);
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                     :
                     : "l"(__cvta_generic_to_global(to)), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                     : "memory");
#else
        *reinterpret_cast<values_at_once*>(to) = *this;
#endif
    }
    /// The first n, from and to any address; the others are not touched.
    TRIREME_HOST_DEVICE void load_some(A const* from, u32 n) {
        for (u32 j = 0; j < count; ++j)
            if (j < n) set(j, from[j]);
    }
    TRIREME_HOST_DEVICE void store_some(A* to, u32 n) const {
        for (u32 j = 0; j < count; ++j)
            if (j < n) to[j] = (*this)[j];
    }
    /// Moves the first n in one go, where those are all and the address allows it.
    TRIREME_HOST_DEVICE void load_first(A const* from, u32 n) {
        if (n == count && can_move(from))
            load(from);
        else
            load_some(from, n);
    }
    TRIREME_HOST_DEVICE void store_first(A* to, u32 n) const {
        if (n == count && can_move(to))
            store(to);
        else
            store_some(to, n);
    }
    TRIREME_HOST_DEVICE static bool can_move(void const* p) {
        return reinterpret_cast<std::uintptr_t>(p) % alignof(values_at_once) == 0;
    }
};

/// The numbers of N channels, which lie side by side from there on.
template<u32 N, class T>
struct numbers_of_channels {
    accumulate_t<T> of[N];
    TRIREME_HOST_DEVICE explicit numbers_of_channels(T const* from) {
        values_at_once<T, N> all{};
        all.load_first(from, N);
        for (u32 i = 0; i < N; ++i) of[i] = static_cast<accumulate_t<T>>(all[i]);
    }
};

/// copy.store(i, copy.load(i)) for i = first, first + step, ... below `end`: eight loads are under way at a time, for
/// one takes hundreds of cycles.
template<class Copy, class Place>
TRIREME_HOST_DEVICE void copy_in_batches(Copy const& copy, Place first, u32 step, std::type_identity_t<Place> end) {
    constexpr u32 batch = 8;
    for (Place begin = first; begin < end; begin += batch * step) {
        typename Copy::value value[batch];
        for (u32 i = 0; i < batch; ++i)
            if (begin + i * step < end) value[i] = copy.load(begin + i * step);
        for (u32 i = 0; i < batch; ++i)
            if (begin + i * step < end) copy.store(begin + i * step, value[i]);
    }
}

/// The workspace has room for `count` numbers of type N, or this throws usage_error: "adding up 3 channels needs ...".
template<class N, class Stream>
N* workspace_for(block_kernels<Stream> const& k, std::size_t count, char const* what, std::size_t how_many,
                 char const* of_what) {
    std::size_t const bytes = count * sizeof(N);
    if (k.scratch().bytes < bytes)
        throw usage_error(std::string(what) + " " + std::to_string(how_many) + " " + of_what + " needs " +
                          std::to_string(bytes) + " bytes of workspace, and has " + std::to_string(k.scratch().bytes) +
                          "; give the kernels more workspace");
    return static_cast<N*>(k.scratch().data);
}

/// The last operations of forward on a sum, before the kernel writes it: adds the bias, unless it is null, and applies
/// the function.
template<class Function, class T>
struct forward_end {
    T const* bias;

    TRIREME_HOST_DEVICE accumulate_t<T> operator()(accumulate_t<T> sum, u32 channel, std::size_t) const {
        if (bias == nullptr) return Function::value(sum);
        return Function::value(sum + static_cast<accumulate_t<T>>(bias[channel]));
    }
};

/// The last operation of forward without a bias.
template<class Function, class T>
struct unbiased_end {
    TRIREME_HOST_DEVICE accumulate_t<T> operator()(accumulate_t<T> sum, u32, std::size_t) const {
        return Function::value(sum);
    }
};

/// The last operation of backward_input on a sum, before the kernel writes it to `place`: multiplies by the function's
/// slope.
template<class Function, class T>
struct backward_end {
    T const* input;

    TRIREME_HOST_DEVICE accumulate_t<T> operator()(accumulate_t<T> sum, u32, std::size_t place) const {
        if constexpr (std::is_same_v<Function, identity_function>) {
            return sum;
        } else {
            auto const v = static_cast<accumulate_t<T>>(input[place]);
            return sum * Function::slope(v, v);
        }
    }
};

/// Stores a gradient by a parameter, or adds it to what is there.
template<class T>
TRIREME_HOST_DEVICE void give_gradient(T& to, accumulate_t<T> gradient, bool is_new) {
    to = static_cast<T>(is_new ? gradient : static_cast<accumulate_t<T>>(to) + gradient);
}

/// dw += the sum of all partials' first `weights` numbers, db += that of the others, `outputs` many, unless it is null:
/// then nobody wants them. A block adds 32
/// numbers, Groups threads each, and the threads' sums in a fixed order. Reads every partial once.
template<u32 Groups, class T>
struct add_partials {
    using sum = accumulate_t<T>;
    static constexpr u32 width = 32, threads = width * Groups;
    struct shared {
        sum part[Groups][width];
    };
    using own = nothing_kept;

    sum const* partials;
    u32 count, weights, outputs;
    T *dw, *db;
    bool are_new; ///< then = and not +=

    u32 blocks() const noexcept { return divide_up(weights + outputs, width); }
    TRIREME_HOST_DEVICE int phases() const { return 2; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        u32 const column = at.thread % width, group = at.thread / width;
        u32 const i = at.block * width + column, all = weights + outputs;
        if (i >= (db == nullptr ? weights : all)) return;
        if (k == 0) {
            sum part = 0;
            for (u32 first = group; first < count; first += 8 * Groups) {
                sum term[8]; // on their way at the same time
                for (u32 j = 0; j < 8; ++j) {
                    u32 const p = first + j * Groups;
                    term[j] = p < count ? partials[std::size_t{p} * all + i] : sum(0);
                }
                for (u32 j = 0; j < 8; ++j) part += term[j];
            }
            s.part[group][column] = part;
        } else if (group == 0) {
            sum total = 0;
            for (u32 g = 0; g < Groups; ++g) total += s.part[g][column];
            give_gradient(i < weights ? dw[i] : db[i - weights], total, are_new);
        }
    }
};

/// Threads of a block that add one number each, half of them at a time.
template<class Number>
struct halved_sum {
    static constexpr u32 threads = 256;
    static constexpr int halvings = 8;
    static_assert(1u << halvings == threads);
    struct shared {
        Number part[threads];
    };

    /// Phase k = 1, ..., halvings. True for the thread that has the sum.
    TRIREME_HOST_DEVICE static bool add(int k, block_place at, shared& s) {
        u32 const half = threads >> k;
        if (at.thread < half) s.part[at.thread] += s.part[at.thread + half];
        return half == 1 && at.thread == 0;
    }
};

} // namespace trireme::blocks
