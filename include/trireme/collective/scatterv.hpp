// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/blocks_by_rank.hpp>
#include <trireme/collective/broadcast.hpp>
#include <trireme/collective/in_flight.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme::detail::inline TRIREME_ISA {

/// Scatter of blocks that begin at the root's `offsets`; the others give room for as many offsets, and get them first.
template<class Strategy, class T, collective_communicator C>
std::vector<T> scatter_blocks(C& comm, std::span<T const> in, std::vector<std::size_t> offsets, int root) {
    auto const r = static_cast<std::size_t>(comm.rank());
    bool const here = comm.rank() == root;
    broadcast<direct>(comm, offsets, root);
    auto const total = offsets.back();
    range const mine{offsets[r], offsets[r + 1]};
    auto const s = schedule_for<Strategy, collective::scatter, T>(comm, total, root);
    bool const whole = written_by(s, comm.rank()) == output_part::whole;
    if (!here) in = {};
    std::vector<T> result(whole ? total : mine.size());
    if (here) copy_elements(in.data() + mine.begin, result.data() + (whole ? mine.begin : 0), mine.size());
    auto call = call_of<T, no_op>(collective::scatter, s, total, in, std::span<T>(result));
    if (!whole) call.out_from = mine.begin * sizeof(T);
    in_flight<T, no_op, C>(comm, s, {total, sizeof(T), s.chunks, comm.size(), offsets.data()}, call, {}).wait();
    if (!whole) return result;
    auto const from = result.begin() + static_cast<std::ptrdiff_t>(mine.begin);
    return {from, from + static_cast<std::ptrdiff_t>(mine.size())};
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// Scatter of blocks that differ in size: returns this rank's block of what the root has, which may be what gatherv has
/// made; that of the others is not looked at. The root tells the sizes first, then a schedule of scatter moves exactly
/// these bytes. Throws usage_error if the root has another number of blocks than ranks, or they do not lie one behind
/// the other in its numbers, and as scatter.
template<class Strategy = strategy_by_default<collective::scatter>, collective_communicator C, byte_copyable T>
    requires std::default_initializable<T>
[[nodiscard]] std::vector<T> scatterv(C& comm, blocks_by_rank<T> const& blocks, int root = 0) {
    detail::check_root("scatterv", root, comm.size());
    auto const n = static_cast<std::size_t>(comm.size());
    if (comm.rank() == root)
        detail::check_blocks("scatterv", "root's input", blocks.numbers.size(), blocks.offsets, comm.size());
    auto offsets = blocks.offsets;
    offsets.resize(n + 1); // the others' are not looked at
    return detail::scatter_blocks<Strategy, T>(comm, blocks.numbers, std::move(offsets), root);
}

/// Scatter of numbers whose count the root alone knows: returns this rank's share of the root's `numbers`, which has
/// the same size on all ranks; the numbers of the others are not looked at. `auto const mine = scatterv(me, all);`.
/// Throws usage_error if the root's count is not a multiple of the number of ranks, and as scatter.
template<class Strategy = strategy_by_default<collective::scatter>, collective_communicator C, numbers_of_any_count In>
[[nodiscard]] std::vector<element_of<In>> scatterv(C& comm, In&& numbers, int root = 0) {
    using T = element_of<In>;
    std::span<T const> const in(numbers);
    detail::check_root("scatterv", root, comm.size());
    auto const n = static_cast<std::size_t>(comm.size());
    if (comm.rank() == root && in.size() % n != 0)
        detail::wrong_size("scatterv", "root's input", in.size(), "a multiple of the " + std::to_string(n) + " ranks");
    std::vector<std::size_t> offsets(n + 1);
    for (std::size_t q = 0; q <= n; ++q) offsets[q] = q * (in.size() / n);
    return detail::scatter_blocks<Strategy, T>(comm, in, std::move(offsets), root);
}

} // namespace trireme::inline TRIREME_ISA
