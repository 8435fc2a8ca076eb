// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/core/words.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/device/host/stored_numbers.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace trireme {

/// Element types of collectives that only move data: they copy bytes.
template<class T>
concept byte_copyable = std::is_trivially_copyable_v<T> && sizeof(T) <= cache_line;

/// Operations that make one number of two. Every operation is commutative, because schedules combine in orders of their
/// own (docs/decisions/0012-every-collective-is-a-schedule.md). The sum of floating-point numbers depends on the order
/// of additions, which the schedule fixes.
namespace op {

/// The sum.
struct sum {
    static constexpr char const* name = "sum";
    template<class V>
    [[gnu::always_inline]] static V apply(V a, V b) noexcept {
        return a + b;
    }
};
/// The larger; of a NaN and a number either.
struct max {
    static constexpr char const* name = "max";
    template<class V>
    [[gnu::always_inline]] static V apply(V a, V b) noexcept {
        return V::select(a > b, a, b);
    }
};
/// The smaller; of a NaN and a number either.
struct min {
    static constexpr char const* name = "min";
    template<class V>
    [[gnu::always_inline]] static V apply(V a, V b) noexcept {
        return V::select(a < b, a, b);
    }
};
/// The sum, divided by the number of ranks at the end; of integers rounded towards zero. Costs a pass over the result,
/// unless a schedule adds all contributions at once.
struct avg : sum {
    static constexpr char const* name = "avg";
};

/// An operation of one's own: a function of two elements of any type that is copied as bytes, which returns one.
///
///     all_reduce(me, numbers, op::commutative("product", [](auto a, auto b) { return a * b; }));
///
/// The name of the type is a promise: schedules combine the ranks' elements in any order and grouping, so the function
/// is commutative and associative, up to rounding. (A function that needs the order of ranks folds the result of
/// all_gather.) The text is a literal: ranks compare it (24 characters), and messages show it. The function may carry
/// state, the same on all ranks; it is called as a constant, by every rank. What it throws ends the collective on all
/// ranks. Cost: a loop over the elements, which the compiler may turn into vectors.
template<class F>
struct commutative {
    char const* name;
    F function;
    constexpr commutative(char const* called, F f) : name(called), function(std::move(f)) {}
};
template<class F>
commutative(char const*, F) -> commutative<F>;

} // namespace op

/// The operations that ranks and transports know by their names: op::sum, op::max, op::min and op::avg.
template<class Op>
concept named_operation =
    std::same_as<Op, op::sum> || std::same_as<Op, op::max> || std::same_as<Op, op::min> || std::same_as<Op, op::avg>;

namespace detail {

template<class>
inline constexpr bool is_commutative = false;
template<class F>
inline constexpr bool is_commutative<op::commutative<F>> = true;

/// Numbers that there are registers of: what all kernels add.
template<class T>
concept in_registers =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int32_t> || std::same_as<T, bf16>;

template<class Op, class T>
inline constexpr bool combines = true;
template<class F, class T>
inline constexpr bool combines<op::commutative<F>, T> = [] {
    if constexpr (std::is_invocable_v<F const&, T const&, T const&>)
        return std::is_convertible_v<std::invoke_result_t<F const&, T const&, T const&>, T>;
    else
        return false;
}();

} // namespace detail

/// Operations of collectives that add: the named ones, and op::commutative.
template<class Op>
concept reduction_operation = named_operation<Op> || detail::is_commutative<Op>;

/// Element types of collectives that add by a named operation: float, double, bf16 and integers.
template<class T>
concept reducible = detail::in_registers<T> || (std::integral<T> && !std::same_as<T, bool>);

/// Element types that collectives may add by an operation: for one's own all that are copied as bytes.
template<class T, class Op>
concept reducible_by = (named_operation<Op> && reducible<T>) || (detail::is_commutative<Op> && byte_copyable<T>);

template<class... Where>
struct operation_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0080: this is no reduction operation: op::sum, op::max, op::min and op::avg are; of a function "
                  "whose order and grouping do not matter op::commutative(\"its name\", function) makes one, which "
                  "ranks compare by name");
};
template<class... Where>
struct combining_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0115: this operation does not combine two elements of the buffer: the function of "
                  "op::commutative takes two of them, returns one, and can be called as a constant");
};

/// A functor where an operation belongs: collectives take it, to refuse it by a rule.
template<class F, class T>
concept functor_of_another_kind = !reduction_operation<F> && std::invocable<F&, T const&, T const&>;

namespace detail {

template<class Op, class T, bool Combines = combines<Op, T>>
struct combining_check {
    using type = no_rule;
};
template<class F, class T>
struct combining_check<op::commutative<F>, T, false> {
    using type = combining_rule<gets<F>, wants<T>>;
};

} // namespace detail
} // namespace trireme

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

namespace trireme::detail::inline TRIREME_ISA {

/// own and the sources, in order, into `output` and, the same, into the copies. The results of a few registers are
/// complete before the next are begun, so that each number is read once and written once per copy. `divisor` is 1 but
/// for averages.
template<class Op, class T>
TRIREME_NOINLINE void reduce_into(T* out, T* const* copies, int copy_count, T const* own, T const* const* sources,
                                  int source_count, std::size_t n, int divisor) noexcept {
    using vector = reckoned_vector<T>;
    if (source_count == 1 && copy_count == 1 && divisor == 1) { // two ranks, the commonest case, without the loops
        auto const* const other = sources[0];
        auto* const copy = copies[0];
        for_registers<vector>(n, [=](std::size_t i, auto count) {
            auto const sum = Op::apply(read_numbers<vector>(own + i, count), read_numbers<vector>(other + i, count));
            write_numbers(sum, out + i, count);
            write_numbers(sum, copy + i, count);
        });
    } else if (source_count == 1 && copy_count == 0 && divisor == 1) {
        auto const* const other = sources[0];
        for_registers<vector>(n, [=](std::size_t i, auto count) {
            write_numbers(Op::apply(read_numbers<vector>(own + i, count), read_numbers<vector>(other + i, count)),
                          out + i, count);
        });
    } else {
        auto const divided = [&](vector v) {
            return divisor == 1 ? v : v / vector::all(static_cast<decltype(vector::all(0).sum())>(divisor));
        };
        // Four registers of each source in turn: buffers often have one page offset, and would else take turns in the
        // same few lines of the nearest cache.
        constexpr std::size_t tile = 4;
        std::size_t done = 0;
        for (; done + tile * vector::size <= n; done += tile * vector::size) {
            vector sum[tile];
#pragma GCC unroll 4
            for (std::size_t j = 0; j < tile; ++j) sum[j] = read_numbers<vector>(own + done + j * vector::size);
            for (int k = 0; k < source_count; ++k) {
                auto const* const source = sources[k] + done;
#pragma GCC unroll 4
                for (std::size_t j = 0; j < tile; ++j)
                    sum[j] = as_stored<T>(Op::apply(sum[j], read_numbers<vector>(source + j * vector::size)));
            }
#pragma GCC unroll 4
            for (std::size_t j = 0; j < tile; ++j) {
                sum[j] = divided(sum[j]);
                write_numbers(sum[j], out + done + j * vector::size);
            }
            for (int k = 0; k < copy_count; ++k) {
                auto* const copy = copies[k] + done;
#pragma GCC unroll 4
                for (std::size_t j = 0; j < tile; ++j) write_numbers(sum[j], copy + j * vector::size);
            }
        }
        for_registers<vector>(n - done, [&](std::size_t i, auto count) {
            i += done;
            auto sum = read_numbers<vector>(own + i, count);
            for (int k = 0; k < source_count; ++k)
                sum = as_stored<T>(Op::apply(sum, read_numbers<vector>(sources[k] + i, count)));
            sum = divided(sum);
            write_numbers(sum, out + i, count);
            for (int k = 0; k < copy_count; ++k) write_numbers(sum, copies[k] + i, count);
        });
    }
}

/// Adds one array to another, in place.
template<class T>
void add_into(T* sum, T const* term, std::size_t n) noexcept {
    reduce_into<op::sum, T>(sum, nullptr, 0, sum, &term, 1, n, 1);
}

/// Divides in place, for averages whose sums came in several steps.
template<class T>
TRIREME_NOINLINE void divide(T* x, std::size_t n, int divisor) noexcept {
    if constexpr (in_registers<T>) {
        using vector = reckoned_vector<T>;
        auto const by = vector::all(static_cast<decltype(vector::all(0).sum())>(divisor));
        for_registers<vector>(n, [=](std::size_t i, auto count) {
            write_numbers(read_numbers<vector>(x + i, count) / by, x + i, count);
        });
    } else {
        auto const by = static_cast<std::common_type_t<T, int>>(divisor);
        for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(x[i] / by);
    }
}

/// Two elements that there are no registers of, or that are combined by an operation of one's own.
template<class Op, class T>
constexpr T combined(Op const& how, T const& a, T const& b) noexcept(named_operation<Op>) {
    if constexpr (std::same_as<Op, op::max>) {
        return a < b ? b : a;
    } else if constexpr (std::same_as<Op, op::min>) {
        return b < a ? b : a;
    } else if constexpr (named_operation<Op>) {
        using natural = std::make_unsigned_t<T>; // sums go round, as they do in registers
        return static_cast<T>(static_cast<natural>(static_cast<natural>(a) + static_cast<natural>(b)));
    } else {
        return static_cast<T>(how.function(a, b));
    }
}

/// Combines own and the sources like reduce_into, for any elements, in that order, an element at a time.
template<class T, class Op>
TRIREME_NOINLINE void combine_into(T* out, T* const* copies, int copy_count, T const* own, T const* const* sources,
                                   int source_count, std::size_t n, int divisor,
                                   Op const& how) noexcept(named_operation<Op>) {
    constexpr std::size_t piece = 8192 / sizeof(T); // stays in the nearest cache until all sources have been added
    for (std::size_t at = 0; at < n; at += piece) {
        auto const count = std::min(piece, n - at);
        auto* const to = out + at;
        auto const* so_far = own + at;
        for (int k = 0; k < source_count; ++k) {
            auto const* const other = sources[k] + at;
            for (std::size_t i = 0; i < count; ++i) to[i] = combined(how, so_far[i], other[i]);
            so_far = to;
        }
        if (so_far != to) std::memmove(to, so_far, count * sizeof(T));
        if constexpr (std::same_as<Op, op::avg>)
            if (divisor != 1) divide(to, count, divisor);
        for (int k = 0; k < copy_count; ++k) std::memcpy(copies[k] + at, to, count * sizeof(T));
    }
}

} // namespace trireme::detail::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
