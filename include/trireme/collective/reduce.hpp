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

/// Reduce: afterwards the root's `output` holds the sum of all ranks' `input`; the others' `output`, of the same size,
/// is scratch. `input` and `output` may be the same buffer.
///
/// Strategies: direct, binomial_tree, double_binary_tree, chain, hierarchical. Throws usage_error (sizes, no such
/// root), and as all_reduce.
template<class Strategy = strategy_by_default<collective::reduce>, reduction_operation Op = op::sum,
         collective_communicator C, buffer In, buffer_of<element_of<In>> Out>
    requires reducible_by<element_of<In>, Op>
in_flight<element_of<In>, Op, C> start_reduce(C& comm, In&& input, Out&& output, int root = 0, Op how = {}) {
    using T = element_of<In>;
    std::span<T const> const in(input);
    std::span<T> const out(output);
    detail::check_root("reduce", root, comm.size());
    if (in.size() != out.size())
        detail::wrong_size("reduce", "output", out.size(), std::to_string(in.size()) + ", as many as the input");
    detail::check_overlap<T>("reduce", in, 0, out, 0);
    auto const s = detail::schedule_for<Strategy, collective::reduce, T>(comm, in.size(), root);
    if (comm.size() == 1) detail::copy_elements(in.data(), out.data(), in.size());
    return {comm,
            s,
            {in.size(), sizeof(T), s.chunks},
            detail::call_of<T, Op>(collective::reduce, s, in.size(), in, out, how),
            {0, comm.rank() == root ? out.size() : 0},
            std::move(how)};
}
template<class Strategy = strategy_by_default<collective::reduce>, reduction_operation Op = op::sum,
         collective_communicator C, writable_buffer Buffer>
    requires reducible_by<element_of<Buffer>, Op>
in_flight<element_of<Buffer>, Op, C> start_reduce(C& comm, Buffer&& whole, int root = 0, Op how = {}) {
    using T = element_of<Buffer>;
    std::span<T> const buffer(whole);
    return start_reduce<Strategy>(comm, std::span<T const>(buffer), buffer, root, std::move(how));
}

/// Gives the root the sum, or what `Op` says, of all ranks' `input`, and returns when this rank's part is done. See
/// start_reduce.
template<class Strategy = strategy_by_default<collective::reduce>, reduction_operation Op = op::sum,
         collective_communicator C, buffer In, buffer_of<element_of<In>> Out>
    requires reducible_by<element_of<In>, Op>
void reduce(C& comm, In&& input, Out&& output, int root = 0, Op how = {}) {
    start_reduce<Strategy>(comm, input, output, root, std::move(how)).wait();
}
template<class Strategy = strategy_by_default<collective::reduce>, reduction_operation Op = op::sum,
         collective_communicator C, writable_buffer Buffer>
    requires reducible_by<element_of<Buffer>, Op>
void reduce(C& comm, Buffer&& whole, int root = 0, Op how = {}) {
    start_reduce<Strategy>(comm, whole, root, std::move(how)).wait();
}

/// Returns the result of one number on the root, on the others what they gave; or that of a buffer that the caller
/// gives away, which the others get back as scratch. `double const total = reduce(me, 3.5);`. Else as with two buffers.
template<class Strategy = strategy_by_default<collective::reduce>, reduction_operation Op = op::sum,
         collective_communicator C, single_value T>
    requires reducible_by<T, Op>
[[nodiscard]] T reduce(C& comm, T const value, int root = 0, Op how = {}) {
    auto result = value;
    start_reduce<Strategy>(comm, std::span<T>(&result, 1), root, std::move(how)).wait();
    return comm.rank() == root ? result : value;
}
template<class Strategy = strategy_by_default<collective::reduce>, reduction_operation Op = op::sum,
         collective_communicator C, temporary_buffer B>
    requires reducible_by<element_of<B>, Op>
[[nodiscard]] B reduce(C& comm, B&& numbers, int root = 0, Op how = {}) {
    start_reduce<Strategy>(comm, std::span<element_of<B>>(numbers), root, std::move(how)).wait();
    return std::move(numbers);
}

template<class Strategy = strategy_by_default<collective::reduce>, collective_communicator C,
         std::ranges::contiguous_range Buffer, functor_of_another_kind<element_of<Buffer>> F>
void reduce(C&, Buffer&&, int, F const&) {
    [[maybe_unused]] static constexpr operation_rule<gets<F>> checked{};
}
template<class Strategy = strategy_by_default<collective::reduce>, collective_communicator C, buffer In, buffer Out,
         functor_of_another_kind<element_of<In>> F>
void reduce(C&, In&&, Out&&, int, F const&) {
    [[maybe_unused]] static constexpr operation_rule<gets<F>> checked{};
}
template<class Strategy = strategy_by_default<collective::reduce>, collective_communicator C, single_value T,
         functor_of_another_kind<T> F>
T reduce(C&, T value, int, F const&) {
    [[maybe_unused]] static constexpr operation_rule<gets<F>> checked{};
    return value;
}

} // namespace trireme::inline TRIREME_ISA
