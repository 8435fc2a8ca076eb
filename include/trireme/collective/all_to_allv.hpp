// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/all_to_all.hpp>
#include <trireme/collective/blocks_by_rank.hpp>
#include <trireme/collective/in_flight.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme::detail {

/// The message from a sender to the receiver of a block, before the block itself: place and size in the sender's input,
/// and the size of that input.
struct sent_block {
    std::uint64_t begin;
    std::uint64_t count;
    std::uint64_t all;
};

/// The reduction of an all_to_allv: adds nothing, and says where blocks lie in inputs.
struct uneven_inputs {
    std::span<sent_block const> received; ///< of this rank, by sender
    std::span<std::size_t const> offsets; ///< of the blocks in this rank's input, by receiver

    std::size_t begin_at_source(int source) const noexcept {
        return static_cast<std::size_t>(received[static_cast<std::size_t>(source)].begin);
    }
    range sent_to(int rank) const noexcept {
        auto const r = static_cast<std::size_t>(rank);
        return {offsets[r], offsets[r + 1]};
    }
    template<class T>
    bytes_t operator()(reduction_view<T> const&) const noexcept {
        return 0;
    }
};

/// The check that a schedule copies every block at once, from the sender's input to its place in the receiver's output:
/// no other place has the block's size. Throws usage_error.
inline void require_one_way(schedule const& s, int rank) {
    bool one_way = s.chunks == s.ranks;
    for (int i = 0; one_way && i < s.steps; ++i) {
        auto const step = s.at(rank, i);
        if (!reads(step.kind)) continue;
        one_way = step.kind == step_kind::copy && step.chunk.count == 1 && step.source_chunk >= 0 &&
                  s.place(step.source_chunk) == rank &&
                  s.place(step.chunk.at(0, s.chunks)) == step.sources.at(0, s.ranks);
    }
    if (!one_way)
        throw usage_error(std::string("all_to_allv by ") + s.name +
                          ": its blocks are cut, or pass other ranks, which blocks that differ in size cannot: choose "
                          "the strategy direct");
}

} // namespace trireme::detail

namespace trireme::detail::inline TRIREME_ISA {

template<class Strategy, class T, collective_communicator C>
blocks_by_rank<T> exchange_blocks(C& comm, std::span<T const> in, std::span<std::size_t const> offsets) {
    check_blocks("all_to_allv", "input", in.size(), offsets, comm.size());
    auto const n = static_cast<std::size_t>(comm.size()), r = static_cast<std::size_t>(comm.rank());
    std::vector<sent_block> sent(n);
    for (std::size_t q = 0; q < n; ++q) sent[q] = {offsets[q], offsets[q + 1] - offsets[q], in.size()};
    auto const received = all_to_all<direct>(comm, std::move(sent));
    std::vector<std::size_t> counts(n);
    std::size_t total = 0; // of all ranks, which agree on it
    for (std::size_t p = 0; p < n; ++p) {
        counts[p] = static_cast<std::size_t>(received[p].count);
        total += static_cast<std::size_t>(received[p].all);
    }
    blocks_by_rank<T> all(counts);
    copy_elements(in.data() + offsets[r], all[r].data(), counts[r]);
    auto const s = schedule_for<Strategy, collective::all_to_all, T>(comm, total / n);
    require_one_way(s, comm.rank());
    auto call = call_of<T, no_op>(collective::all_to_all, s, total, in, std::span<T>(all.numbers));
    call.name = "all_to_allv";
    run_of<T, C, uneven_inputs>(comm, s, {all.numbers.size(), sizeof(T), s.chunks, comm.size(), all.offsets.data()},
                                call, uneven_inputs{received, offsets})
        .finish();
    return all;
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// All-to-all of blocks that differ in size: block q of rank r's `blocks` becomes block r of rank q's result. Blocks
/// may be empty. A rank knows the sizes of its own blocks alone: `auto const mine = all_to_allv(me, for_others);`.
///
/// An all-to-all of three numbers per pair of ranks tells places and sizes; then a schedule of all_to_all moves exactly
/// the blocks' bytes. Strategies: direct, and others that copy every block at once from rank to rank. Throws
/// usage_error (another number of blocks than ranks), and as all_to_all. Cost per rank, by direct: 2 (n - 1) messages
/// in 2 n steps, half of them of 24 bytes, half of a block each. For the blocks it is traffic_of(schedule, rank, cut),
/// with the result's offsets for the cut.
template<class Strategy = strategy_by_default<collective::all_to_all>, collective_communicator C, byte_copyable T>
    requires std::default_initializable<T>
[[nodiscard]] blocks_by_rank<T> all_to_allv(C& comm, blocks_by_rank<T> const& blocks) {
    return detail::exchange_blocks<Strategy, T>(comm, blocks.numbers, blocks.offsets);
}

/// All-to-all of blocks that lie one behind the other in `input`, `counts[q]` numbers for rank q. Throws usage_error
/// too if the counts do not add up to the input's size. Else as with blocks_by_rank.
template<class Strategy = strategy_by_default<collective::all_to_all>, collective_communicator C,
         numbers_of_any_count In>
[[nodiscard]] blocks_by_rank<element_of<In>> all_to_allv(C& comm, In&& input, std::span<std::size_t const> counts) {
    using T = element_of<In>;
    std::vector<std::size_t> offsets{0};
    for (auto const count : counts) offsets.push_back(offsets.back() + count);
    return detail::exchange_blocks<Strategy, T>(comm, std::span<T const>(input), offsets);
}

} // namespace trireme::inline TRIREME_ISA
