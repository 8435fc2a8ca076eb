// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/all_gatherv.hpp>
#include <trireme/collective/blocks_by_rank.hpp>
#include <trireme/collective/in_flight.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace trireme::inline TRIREME_ISA {

/// Gather of blocks that differ in size: returns what every rank has for `input`, of which it may have any number, on
/// the root; elsewhere all blocks are empty. As all_gatherv, with the strategies of gather. Throws as gather.
template<class Strategy = strategy_by_default<collective::gather>, collective_communicator C, numbers_of_any_count In>
[[nodiscard]] blocks_by_rank<element_of<In>> gatherv(C& comm, In&& input, int root = 0) {
    using T = element_of<In>;
    std::span<T const> const in(input);
    detail::check_root("gatherv", root, comm.size());
    auto const counts = detail::counts_of(comm, in.size());
    auto const r = static_cast<std::size_t>(comm.rank());
    blocks_by_rank<T> all(counts);
    auto const total = all.numbers.size();
    auto const s = detail::schedule_for<Strategy, collective::gather, T>(comm, total, root);
    bool const here = comm.rank() == root;
    if (here || detail::written_by(s, comm.rank()) != detail::output_part::none)
        detail::copy_elements(in.data(), all[r].data(), in.size());
    else
        all.numbers = {};
    auto call = detail::call_of<T, detail::no_op>(collective::gather, s, total, in, std::span<T>(all.numbers));
    call.in_from = all.offsets[r] * sizeof(T);
    in_flight<T, detail::no_op, C>(comm, s, {total, sizeof(T), s.chunks, comm.size(), all.offsets.data()}, call, {})
        .wait();
    if (here) return all;
    return blocks_by_rank<T>(std::vector<std::size_t>(counts.size(), 0));
}

} // namespace trireme::inline TRIREME_ISA
