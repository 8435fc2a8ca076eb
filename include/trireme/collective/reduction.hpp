// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/words.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/device/host/stored_numbers.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace trireme {

/// How two numbers become one. Every operation is commutative; the sum of floating-point numbers depends on the order
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

} // namespace op

/// Operations of collectives that add: op::sum, op::max, op::min and op::avg.
template<class Op>
concept reduction_operation =
    std::same_as<Op, op::sum> || std::same_as<Op, op::max> || std::same_as<Op, op::min> || std::same_as<Op, op::avg>;

template<class... Where>
struct operation_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0080: this is no reduction operation: op::sum, op::max, op::min and op::avg are, which ranks and "
                  "transports know by name; for another one, all_gather the numbers and combine them on every rank");
};

/// A functor where an operation belongs: collectives take it, to refuse it by that rule.
template<class F>
concept functor_of_another_kind = !reduction_operation<F> && std::invocable<F&, float, float>;

/// Element types of collectives that add.
template<class T>
concept reducible =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::int32_t> || std::same_as<T, bf16>;

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
    using vector = reckoned_vector<T>;
    auto const by = vector::all(static_cast<decltype(vector::all(0).sum())>(divisor));
    for_registers<vector>(
        n, [=](std::size_t i, auto count) { write_numbers(read_numbers<vector>(x + i, count) / by, x + i, count); });
}

} // namespace trireme::detail::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
