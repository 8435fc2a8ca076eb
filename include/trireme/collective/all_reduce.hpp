// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/in_flight.hpp>

#include <cstddef>
#include <ranges>
#include <span>
#include <string>
#include <utility>

namespace trireme::inline TRIREME_ISA {

/// All-reduce: afterwards `output` holds, on every rank, the sum (or what `Op` says) of all ranks' `input`, the same
/// bits everywhere. All ranks of the group call it with buffers of one size; `input` and `output` may be the same
/// buffer.
///
/// Each number is the result of n - 1 additions in an order that the schedule fixes, and each is rounded: a sum is off
/// by at most (n - 1) u / (1 - (n - 1) u) times the sum of magnitudes, u being 2^-24 for float, 2^-53 for double, 2^-8
/// for bf16 (Higham, "Accuracy and Stability of Numerical Algorithms", 4.2), as long as nothing overflows.
///
/// `Op` is op::sum, op::max, op::min or op::avg, of float, double, bf16 or integers; or op::commutative, of any type
/// that is copied as bytes.
///
/// Strategies: direct, ring, bidirectional_ring, recursive_halving_doubling, double_binary_tree, chain, hierarchical.
/// Throws usage_error (sizes; a strategy that is no all-reduce), mismatch_error, deadline_error, group_stopped. Cost:
/// traffic_of(schedule, rank, elements, sizeof(T)) between ranks; no allocation after the strategy's first use.
template<class Strategy = strategy_by_default<collective::all_reduce>, reduction_operation Op = op::sum,
         collective_communicator C, buffer In, buffer_of<element_of<In>> Out>
    requires reducible_by<element_of<In>, Op>
in_flight<element_of<In>, Op, C> start_all_reduce(C& comm, In&& input, Out&& output, Op how = {}) {
    using T = element_of<In>;
    std::span<T const> const in(input);
    std::span<T> const out(output);
    if (in.size() != out.size())
        detail::wrong_size("all_reduce", "output", out.size(), std::to_string(in.size()) + ", as many as the input");
    detail::check_overlap<T>("all_reduce", in, 0, out, 0);
    auto const s = detail::schedule_for<Strategy, collective::all_reduce, T>(comm, in.size());
    if (comm.size() == 1) detail::copy_elements(in.data(), out.data(), in.size());
    return {comm,
            s,
            {in.size(), sizeof(T), s.chunks},
            detail::call_of<T, Op>(collective::all_reduce, s, in.size(), in, out, how),
            {0, out.size()},
            std::move(how)};
}
template<class Strategy = strategy_by_default<collective::all_reduce>, reduction_operation Op = op::sum,
         collective_communicator C, writable_buffer Buffer>
    requires reducible_by<element_of<Buffer>, Op>
in_flight<element_of<Buffer>, Op, C> start_all_reduce(C& comm, Buffer&& whole, Op how = {}) {
    using T = element_of<Buffer>;
    std::span<T> const buffer(whole);
    return start_all_reduce<Strategy>(comm, std::span<T const>(buffer), buffer, std::move(how));
}

/// Gives every rank the sum, or what `Op` says, of all ranks' `input`, and returns when it is there. See
/// start_all_reduce.
template<class Strategy = strategy_by_default<collective::all_reduce>, reduction_operation Op = op::sum,
         collective_communicator C, buffer In, buffer_of<element_of<In>> Out>
    requires reducible_by<element_of<In>, Op>
void all_reduce(C& comm, In&& input, Out&& output, Op how = {}) {
    start_all_reduce<Strategy>(comm, input, output, std::move(how)).wait();
}
template<class Strategy = strategy_by_default<collective::all_reduce>, reduction_operation Op = op::sum,
         collective_communicator C, writable_buffer Buffer>
    requires reducible_by<element_of<Buffer>, Op>
void all_reduce(C& comm, Buffer&& whole, Op how = {}) {
    start_all_reduce<Strategy>(comm, whole, std::move(how)).wait();
}

/// Returns the result of one number, or of a buffer that the caller gives away: `double const total =
/// all_reduce(me, 3.5);`, `auto const sums = all_reduce(me, std::move(mine));`. Else as with two buffers.
template<class Strategy = strategy_by_default<collective::all_reduce>, reduction_operation Op = op::sum,
         collective_communicator C, single_value T>
    requires reducible_by<T, Op>
[[nodiscard]] T all_reduce(C& comm, T value, Op how = {}) {
    start_all_reduce<Strategy>(comm, std::span<T>(&value, 1), std::move(how)).wait();
    return value;
}
template<class Strategy = strategy_by_default<collective::all_reduce>, reduction_operation Op = op::sum,
         collective_communicator C, temporary_buffer B>
    requires reducible_by<element_of<B>, Op>
[[nodiscard]] B all_reduce(C& comm, B&& numbers, Op how = {}) {
    start_all_reduce<Strategy>(comm, std::span<element_of<B>>(numbers), std::move(how)).wait();
    return std::move(numbers);
}

template<class Strategy = strategy_by_default<collective::all_reduce>, collective_communicator C,
         std::ranges::contiguous_range Buffer, functor_of_another_kind<element_of<Buffer>> F>
void all_reduce(C&, Buffer&&, F const&) {
    [[maybe_unused]] static constexpr operation_rule<gets<F>> checked{};
}
template<class Strategy = strategy_by_default<collective::all_reduce>, collective_communicator C, buffer In, buffer Out,
         functor_of_another_kind<element_of<In>> F>
void all_reduce(C&, In&&, Out&&, F const&) {
    [[maybe_unused]] static constexpr operation_rule<gets<F>> checked{};
}
template<class Strategy = strategy_by_default<collective::all_reduce>, collective_communicator C, single_value T,
         functor_of_another_kind<T> F>
T all_reduce(C&, T value, F const&) {
    [[maybe_unused]] static constexpr operation_rule<gets<F>> checked{};
    return value;
}

} // namespace trireme::inline TRIREME_ISA
