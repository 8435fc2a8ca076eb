// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/blocks_by_rank.hpp>
#include <trireme/collective/broadcast.hpp>
#include <trireme/collective/in_flight.hpp>
#include <trireme/core/errors.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme::inline TRIREME_ISA {

/// Scatter of blocks that differ in size: returns this rank's block of what the root has, which may be what gatherv has
/// made; that of the others is not looked at. The root tells the sizes first, then a schedule of scatter moves exactly
/// these bytes. Throws usage_error if the root has another number of blocks than ranks, and as scatter.
template<class Strategy = strategy_by_default<collective::scatter>, collective_communicator C, byte_copyable T>
    requires std::default_initializable<T>
[[nodiscard]] std::vector<T> scatterv(C& comm, blocks_by_rank<T> const& blocks, int root = 0) {
    detail::check_root("scatterv", root, comm.size());
    auto const n = static_cast<std::size_t>(comm.size()), r = static_cast<std::size_t>(comm.rank());
    bool const here = comm.rank() == root;
    if (here && blocks.size() != n)
        throw usage_error("scatterv: the root has " + std::to_string(blocks.size()) + " blocks; it needs " +
                          std::to_string(n) + ", one per rank");
    auto offsets = blocks.offsets;
    offsets.resize(n + 1); // the others' are not looked at
    broadcast<direct>(comm, offsets, root);
    auto const total = offsets[n];
    range const mine{offsets[r], offsets[r + 1]};
    auto const s = detail::schedule_for<Strategy, collective::scatter, T>(comm, total, root);
    bool const whole = detail::written_by(s, comm.rank()) == detail::output_part::whole;
    std::span<T const> const in(here ? std::span<T const>(blocks.numbers) : std::span<T const>());
    std::vector<T> result(whole ? total : mine.size());
    if (here) detail::copy_elements(in.data() + mine.begin, result.data() + (whole ? mine.begin : 0), mine.size());
    auto call = detail::call_of<T, detail::no_op>(collective::scatter, s, total, in, std::span<T>(result));
    if (!whole) call.out_from = mine.begin * sizeof(T);
    in_flight<T, detail::no_op, C>(comm, s, {total, sizeof(T), s.chunks, comm.size(), offsets.data()}, call, {}).wait();
    if (!whole) return result;
    auto const from = result.begin() + static_cast<std::ptrdiff_t>(mine.begin);
    return {from, from + static_cast<std::ptrdiff_t>(mine.size())};
}

} // namespace trireme::inline TRIREME_ISA
