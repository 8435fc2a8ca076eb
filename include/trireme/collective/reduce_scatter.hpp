// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/in_flight.hpp>

#include <cstddef>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme::inline TRIREME_ISA {

/// Reduce-scatter: afterwards rank r has block r of the sum of all ranks' `input`, which consists of one block per
/// rank, all of one size. `output` is one block where the strategy writes no other (direct), else as large as `input`:
/// the result is its block r, the rest is scratch. In place: the buffer's block r is the result, the rest is scratch.
///
/// Strategies: direct, ring, bidirectional_ring, recursive_halving_doubling, hierarchical.
/// Throws and costs as all_reduce.
template<class Strategy = strategy_by_default<collective::reduce_scatter>, reduction_operation Op = op::sum,
         collective_communicator C, buffer In, buffer_of<element_of<In>> Out>
    requires reducible_by<element_of<In>, Op>
in_flight<element_of<In>, Op, C> start_reduce_scatter(C& comm, In&& input, Out&& output, Op how = {}) {
    using T = element_of<In>;
    std::span<T const> const in(input);
    std::span<T> const out(output);
    auto const n = static_cast<std::size_t>(comm.size()), r = static_cast<std::size_t>(comm.rank());
    if (in.size() % n != 0)
        detail::wrong_size("reduce_scatter", "input", in.size(), "a multiple of the " + std::to_string(n) + " ranks");
    auto const block = in.size() / n;
    auto const s = detail::schedule_for<Strategy, collective::reduce_scatter, T>(comm, in.size());
    bool const one_block = out.size() != in.size();
    if (one_block && (out.size() != block || detail::written_by(s, comm.rank()) == detail::output_part::whole))
        detail::wrong_size("reduce_scatter", "output", out.size(),
                           std::to_string(in.size()) + ", as many as the input; one block, " + std::to_string(block) +
                               ", is enough for the strategy direct");
    detail::check_overlap<T>("reduce_scatter", in, 0, out, one_block ? r * block : 0);
    if (n == 1) detail::copy_elements(in.data(), out.data(), in.size());
    auto call = detail::call_of<T, Op>(collective::reduce_scatter, s, in.size(), in, out, how);
    if (one_block) call.out_from = r * block * sizeof(T);
    auto const result = one_block ? 0 : r * block;
    return {comm, s, {in.size(), sizeof(T), s.chunks, comm.size()}, call, {result, result + block}, std::move(how)};
}
template<class Strategy = strategy_by_default<collective::reduce_scatter>, reduction_operation Op = op::sum,
         collective_communicator C, writable_buffer Buffer>
    requires reducible_by<element_of<Buffer>, Op>
in_flight<element_of<Buffer>, Op, C> start_reduce_scatter(C& comm, Buffer&& whole, Op how = {}) {
    using T = element_of<Buffer>;
    std::span<T> const buffer(whole);
    return start_reduce_scatter<Strategy>(comm, std::span<T const>(buffer), buffer, std::move(how));
}

/// Gives every rank its block of the sum, or what `Op` says, of all ranks' `input`, and returns when it is there. See
/// start_reduce_scatter.
template<class Strategy = strategy_by_default<collective::reduce_scatter>, reduction_operation Op = op::sum,
         collective_communicator C, buffer In, buffer_of<element_of<In>> Out>
    requires reducible_by<element_of<In>, Op>
void reduce_scatter(C& comm, In&& input, Out&& output, Op how = {}) {
    start_reduce_scatter<Strategy>(comm, input, output, std::move(how)).wait();
}
template<class Strategy = strategy_by_default<collective::reduce_scatter>, reduction_operation Op = op::sum,
         collective_communicator C, writable_buffer Buffer>
    requires reducible_by<element_of<Buffer>, Op>
void reduce_scatter(C& comm, Buffer&& whole, Op how = {}) {
    start_reduce_scatter<Strategy>(comm, whole, std::move(how)).wait();
}

/// Returns this rank's block of the result, of a buffer that the caller gives away: `auto const mine =
/// reduce_scatter(me, std::move(blocks));`. Else as with two buffers.
template<class Strategy = strategy_by_default<collective::reduce_scatter>, reduction_operation Op = op::sum,
         collective_communicator C, temporary_buffer B>
    requires reducible_by<element_of<B>, Op>
[[nodiscard]] std::vector<element_of<B>> reduce_scatter(C& comm, B&& numbers, Op how = {}) {
    std::span<element_of<B>> const all(numbers);
    start_reduce_scatter<Strategy>(comm, all, std::move(how)).wait();
    auto const block = all.size() / static_cast<std::size_t>(comm.size());
    auto const mine = all.subspan(static_cast<std::size_t>(comm.rank()) * block, block);
    return {mine.begin(), mine.end()};
}

template<class Strategy = strategy_by_default<collective::reduce_scatter>, collective_communicator C,
         std::ranges::contiguous_range Buffer, functor_of_another_kind<element_of<Buffer>> F>
void reduce_scatter(C&, Buffer&&, F const&) {
    [[maybe_unused]] static constexpr operation_rule<gets<F>> checked{};
}
template<class Strategy = strategy_by_default<collective::reduce_scatter>, collective_communicator C, buffer In,
         buffer Out, functor_of_another_kind<element_of<In>> F>
void reduce_scatter(C&, In&&, Out&&, F const&) {
    [[maybe_unused]] static constexpr operation_rule<gets<F>> checked{};
}

} // namespace trireme::inline TRIREME_ISA
