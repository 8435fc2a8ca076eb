// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/in_flight.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace trireme::inline TRIREME_ISA {

/// Gather: afterwards block r of the root's `output` is what rank r had for `input`. The others' `output` may be empty
/// where the strategy writes nothing there (direct), else it is scratch of the root's size.
///
/// Strategies: direct, binomial_tree. T is any type that may be copied as bytes. Throws usage_error (sizes, no such
/// root), and as all_reduce.
template<class Strategy = strategy_by_default<collective::gather>, collective_communicator C, buffer In,
         buffer_of<element_of<In>> Out>
    requires byte_copyable<element_of<In>>
in_flight<element_of<In>, detail::no_op, C> start_gather(C& comm, In&& input, Out&& output, int root = 0) {
    using T = element_of<In>;
    std::span<T const> const in(input);
    std::span<T> const out(output);
    detail::check_root("gather", root, comm.size());
    auto const n = static_cast<std::size_t>(comm.size()), r = static_cast<std::size_t>(comm.rank());
    auto const all = n * in.size();
    auto const s = detail::schedule_for<Strategy, collective::gather, T>(comm, all, root);
    bool const unused = comm.rank() != root && detail::written_by(s, comm.rank()) == detail::output_part::none;
    if (out.size() != all && !(unused && out.empty()))
        detail::wrong_size(
            "gather", "output", out.size(),
            std::to_string(all) + ", one block per rank as large as the input" +
                (comm.rank() == root ? "" : "; with the strategy direct it may be empty but for the root"));
    detail::check_overlap<T>("gather", in, r * in.size(), out, 0);
    if (!out.empty()) detail::copy_elements(in.data(), out.data() + r * in.size(), in.size());
    auto call = detail::call_of<T, detail::no_op>(collective::gather, s, all, in, out);
    call.in_from = r * in.size() * sizeof(T);
    return {comm, s, {all, sizeof(T), s.chunks, comm.size()}, call, {}};
}

/// Gives the root the blocks of all ranks, in order, and returns when this rank's part is done. See start_gather.
template<class Strategy = strategy_by_default<collective::gather>, collective_communicator C, buffer In,
         buffer_of<element_of<In>> Out>
    requires byte_copyable<element_of<In>>
void gather(C& comm, In&& input, Out&& output, int root = 0) {
    start_gather<Strategy>(comm, input, output, root).wait();
}

/// Returns the numbers of all ranks, in order, on the root, and none elsewhere: of one from each, or of a buffer that
/// the caller gives away, whose size is the same on all ranks. Else as with two buffers.
template<class Strategy = strategy_by_default<collective::gather>, collective_communicator C, temporary_buffer B>
    requires byte_copyable<element_of<B>>
[[nodiscard]] std::vector<element_of<B>> gather(C& comm, B&& numbers, int root = 0) {
    using T = element_of<B>;
    std::span<T const> const mine(numbers);
    auto const n = static_cast<std::size_t>(comm.size());
    detail::check_root("gather", root, static_cast<int>(n));
    auto const s = detail::schedule_for<Strategy, collective::gather, T>(comm, n * mine.size(), root);
    bool const here = comm.rank() == root;
    std::vector<T> all;
    if (here || detail::written_by(s, comm.rank()) != detail::output_part::none) all = detail::copies_of(mine, n);
    start_gather<Strategy>(comm, mine, all, root).wait();
    if (!here) all.clear();
    return all;
}
template<class Strategy = strategy_by_default<collective::gather>, collective_communicator C, single_value T>
    requires(!std::same_as<T, bool>)
[[nodiscard]] std::vector<T> gather(C& comm, T const value, int root = 0) {
    return gather<Strategy>(comm, std::array<T, 1>{value}, root);
}

} // namespace trireme::inline TRIREME_ISA
