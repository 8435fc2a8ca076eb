// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/in_flight.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace trireme::inline TRIREME_ISA {

/// Broadcast: afterwards every rank's `buffer` holds what the root's held.
///
/// Strategies: direct, binomial_tree, double_binary_tree, chain, hierarchical. T is any type that may be copied as
/// bytes. Throws usage_error (no such root), and as all_reduce.
template<class Strategy = strategy_by_default<collective::broadcast>, collective_communicator C, writable_buffer Buffer>
    requires byte_copyable<element_of<Buffer>>
in_flight<element_of<Buffer>, detail::no_op, C> start_broadcast(C& comm, Buffer&& whole, int root = 0) {
    using T = element_of<Buffer>;
    std::span<T> const buffer(whole);
    detail::check_root("broadcast", root, comm.size());
    auto const s = detail::schedule_for<Strategy, collective::broadcast, T>(comm, buffer.size(), root);
    return {comm,
            s,
            {buffer.size(), sizeof(T), s.chunks},
            detail::call_of<T, detail::no_op>(collective::broadcast, s, buffer.size(), buffer, buffer),
            {}};
}

/// Gives every rank the root's `buffer`, and returns when it is there. See start_broadcast.
template<class Strategy = strategy_by_default<collective::broadcast>, collective_communicator C, writable_buffer Buffer>
    requires byte_copyable<element_of<Buffer>>
void broadcast(C& comm, Buffer&& whole, int root = 0) {
    start_broadcast<Strategy>(comm, whole, root).wait();
}

/// Returns what the root has: one number, `int const seed = broadcast(me, 42);`, or a buffer that the caller gives
/// away, of one size on all ranks. Else as with a buffer.
template<class Strategy = strategy_by_default<collective::broadcast>, collective_communicator C, single_value T>
[[nodiscard]] T broadcast(C& comm, T value, int root = 0) {
    start_broadcast<Strategy>(comm, std::span<T>(&value, 1), root).wait();
    return value;
}
template<class Strategy = strategy_by_default<collective::broadcast>, collective_communicator C, temporary_buffer B>
    requires byte_copyable<element_of<B>>
[[nodiscard]] B broadcast(C& comm, B&& numbers, int root = 0) {
    start_broadcast<Strategy>(comm, std::span<element_of<B>>(numbers), root).wait();
    return std::move(numbers);
}

/// Broadcast of numbers whose count the root alone knows: returns the root's `numbers` on all ranks; those of the
/// others are not looked at. `auto const text = broadcastv(me, me.rank() == 0 ? read() : std::vector<char>());`. A
/// vector that the root gives away comes back.
///
/// The root tells the count first, by a direct broadcast. Strategies and errors are those of broadcast.
template<class Strategy = strategy_by_default<collective::broadcast>, collective_communicator C,
         numbers_of_any_count In>
[[nodiscard]] std::vector<element_of<In>> broadcastv(C& comm, In&& numbers, int root = 0) {
    using T = element_of<In>;
    std::span<T const> const in(numbers);
    detail::check_root("broadcastv", root, comm.size());
    auto const count = broadcast<direct>(comm, in.size(), root);
    std::vector<T> all;
    if constexpr (std::same_as<In, std::vector<T>>)
        all = std::move(numbers);
    else if (comm.rank() == root)
        all.assign(in.begin(), in.end());
    all.resize(count); // the root's have this size
    start_broadcast<Strategy>(comm, all, root).wait();
    return all;
}

} // namespace trireme::inline TRIREME_ISA
