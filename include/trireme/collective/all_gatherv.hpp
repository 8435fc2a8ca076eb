// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/all_gather.hpp>
#include <trireme/collective/blocks_by_rank.hpp>
#include <trireme/collective/in_flight.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace trireme {
namespace detail {

/// The counts of numbers that all ranks have.
template<collective_communicator C>
std::vector<std::size_t> counts_of(C& comm, std::size_t mine) {
    static_assert(sizeof(std::size_t) == 8);
    return all_gather<direct>(comm, mine);
}

} // namespace detail
} // namespace trireme

namespace trireme::inline TRIREME_ISA {

/// All-gather of blocks that differ in size: returns what every rank has for `input`, of which it may have any number,
/// on all ranks. `auto const everyones = all_gatherv(me, mine);`: then `everyones[r]` is what rank r had.
///
/// The sizes are exchanged first, by a direct all-gather; then a schedule of all_gather moves exactly these bytes. Its
/// strategies are those of all_gather. Throws as all_gather. Cost: that of both, traffic_of(schedule, rank, cut) with
/// the cut's offsets.
template<class Strategy = strategy_by_default<collective::all_gather>, collective_communicator C,
         numbers_of_any_count In>
[[nodiscard]] blocks_by_rank<element_of<In>> all_gatherv(C& comm, In&& input) {
    using T = element_of<In>;
    std::span<T const> const in(input);
    blocks_by_rank<T> all(detail::counts_of(comm, in.size()));
    detail::copy_elements(in.data(), all[static_cast<std::size_t>(comm.rank())].data(), in.size());
    std::span<T> const out(all.numbers);
    auto const s = detail::schedule_for<Strategy, collective::all_gather, T>(comm, out.size());
    in_flight<T, detail::no_op, C>(comm, s, {out.size(), sizeof(T), s.chunks, comm.size(), all.offsets.data()},
                                   detail::call_of<T, detail::no_op>(collective::all_gather, s, out.size(), out, out),
                                   {})
        .wait();
    return all;
}

} // namespace trireme::inline TRIREME_ISA
