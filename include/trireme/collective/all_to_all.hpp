// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/in_flight.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace trireme::inline TRIREME_ISA {

/// All-to-all: block q of rank r's `input` becomes block r of rank q's `output`. Both have one block per rank and lie
/// apart.
///
/// Strategies: direct. T is any type that may be copied as bytes. Throws usage_error (sizes), and as all_reduce.
template<class Strategy = strategy_by_default<collective::all_to_all>, collective_communicator C, buffer In,
         buffer_of<element_of<In>> Out>
    requires byte_copyable<element_of<In>>
in_flight<element_of<In>, detail::no_op, C> start_all_to_all(C& comm, In&& input, Out&& output) {
    using T = element_of<In>;
    std::span<T const> const in(input);
    std::span<T> const out(output);
    auto const n = static_cast<std::size_t>(comm.size()), r = static_cast<std::size_t>(comm.rank());
    if (in.size() % n != 0)
        detail::wrong_size("all_to_all", "input", in.size(), "a multiple of the " + std::to_string(n) + " ranks");
    if (out.size() != in.size())
        detail::wrong_size("all_to_all", "output", out.size(), std::to_string(in.size()) + ", as many as the input");
    if (in.data() == out.data() && !in.empty())
        throw usage_error("all_to_all: input and output are the same buffer; it needs two");
    detail::check_overlap<T>("all_to_all", in, 0, out, 0);
    auto const s = detail::schedule_for<Strategy, collective::all_to_all, T>(comm, in.size());
    auto const block = in.size() / n;
    detail::copy_elements(in.data() + r * block, out.data() + r * block, block);
    return {comm,
            s,
            {in.size(), sizeof(T), s.chunks, comm.size()},
            detail::call_of<T, detail::no_op>(collective::all_to_all, s, in.size(), in, out),
            {}};
}

/// Gives every rank its block of every rank's `input`, and returns when they are there. See start_all_to_all.
template<class Strategy = strategy_by_default<collective::all_to_all>, collective_communicator C, buffer In,
         buffer_of<element_of<In>> Out>
    requires byte_copyable<element_of<In>>
void all_to_all(C& comm, In&& input, Out&& output) {
    start_all_to_all<Strategy>(comm, input, output).wait();
}

/// Returns this rank's block of every rank's `input`, in order: `auto const theirs = all_to_all(me, mine);`. Else as
/// with two buffers.
template<class Strategy = strategy_by_default<collective::all_to_all>, collective_communicator C, class In>
    requires(buffer<In> || temporary_buffer<In>) && byte_copyable<element_of<In>>
[[nodiscard]] std::vector<element_of<In>> all_to_all(C& comm, In&& input) {
    std::span<element_of<In> const> const in(input);
    auto all = detail::copies_of(in, 1);
    start_all_to_all<Strategy>(comm, in, all).wait();
    return all;
}

} // namespace trireme::inline TRIREME_ISA
