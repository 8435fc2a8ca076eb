// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/in_flight.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace trireme::inline TRIREME_ISA {

/// All-gather: afterwards block r of `output` is, on every rank, what rank r had for `input`. `output` has one block
/// per rank. In place: the buffer's block r is rank r's.
///
/// Strategies: direct, ring, bidirectional_ring, recursive_halving_doubling, hierarchical. T is any type that may be
/// copied as bytes. Throws as all_reduce; cost: traffic_of(schedule, rank, cut) between ranks.
template<class Strategy = strategy_by_default<collective::all_gather>, collective_communicator C,
         writable_buffer Buffer>
    requires byte_copyable<element_of<Buffer>>
in_flight<element_of<Buffer>, detail::no_op, C> start_all_gather(C& comm, Buffer&& whole) {
    using T = element_of<Buffer>;
    std::span<T> const buffer(whole);
    auto const n = static_cast<std::size_t>(comm.size());
    if (buffer.size() % n != 0)
        detail::wrong_size("all_gather", "buffer", buffer.size(), "a multiple of the " + std::to_string(n) + " ranks");
    auto const s = detail::schedule_for<Strategy, collective::all_gather, T>(comm, buffer.size());
    return {comm,
            s,
            {buffer.size(), sizeof(T), s.chunks, comm.size()},
            detail::call_of<T, detail::no_op>(collective::all_gather, s, buffer.size(), buffer, buffer),
            {}};
}
template<class Strategy = strategy_by_default<collective::all_gather>, collective_communicator C, buffer In,
         buffer_of<element_of<In>> Out>
    requires byte_copyable<element_of<In>>
in_flight<element_of<In>, detail::no_op, C> start_all_gather(C& comm, In&& input, Out&& output) {
    using T = element_of<In>;
    std::span<T const> const in(input);
    std::span<T> const out(output);
    auto const n = static_cast<std::size_t>(comm.size()), r = static_cast<std::size_t>(comm.rank());
    if (out.size() != n * in.size())
        detail::wrong_size("all_gather", "output", out.size(),
                           std::to_string(n * in.size()) + ", one block per rank as large as the input");
    detail::check_overlap<T>("all_gather", in, r * in.size(), out, 0);
    detail::copy_elements(in.data(), out.data() + r * in.size(), in.size());
    return start_all_gather<Strategy>(comm, out);
}

/// Gives every rank the blocks of all ranks, in order, and returns when they are there. See start_all_gather.
template<class Strategy = strategy_by_default<collective::all_gather>, collective_communicator C, buffer In,
         buffer_of<element_of<In>> Out>
    requires byte_copyable<element_of<In>>
void all_gather(C& comm, In&& input, Out&& output) {
    start_all_gather<Strategy>(comm, input, output).wait();
}
template<class Strategy = strategy_by_default<collective::all_gather>, collective_communicator C,
         writable_buffer Buffer>
    requires byte_copyable<element_of<Buffer>>
void all_gather(C& comm, Buffer&& whole) {
    start_all_gather<Strategy>(comm, whole).wait();
}

/// Returns the numbers of all ranks, in order: of one from each, `std::vector<int> const all = all_gather(me,
/// me.rank());`, or of a buffer that the caller gives away, whose size is the same on all ranks. Else as with two
/// buffers.
template<class Strategy = strategy_by_default<collective::all_gather>, collective_communicator C, single_value T>
    requires(!std::same_as<T, bool>)
[[nodiscard]] std::vector<T> all_gather(C& comm, T const value) {
    std::vector<T> all(static_cast<std::size_t>(comm.size()), value);
    start_all_gather<Strategy>(comm, all).wait();
    return all;
}
template<class Strategy = strategy_by_default<collective::all_gather>, collective_communicator C, temporary_buffer B>
    requires byte_copyable<element_of<B>>
[[nodiscard]] std::vector<element_of<B>> all_gather(C& comm, B&& numbers) {
    std::span<element_of<B> const> const mine(numbers);
    auto all = detail::copies_of(mine, static_cast<std::size_t>(comm.size()));
    start_all_gather<Strategy>(comm, mine, all).wait();
    return all;
}

} // namespace trireme::inline TRIREME_ISA
