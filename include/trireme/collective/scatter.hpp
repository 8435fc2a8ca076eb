// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/in_flight.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace trireme::inline TRIREME_ISA {

/// Scatter: afterwards every rank's `output` holds its block of the root's `input`, which has one block per rank; the
/// others' `input` is not looked at. `output` is one block where the strategy writes no other (direct), else one per
/// rank: the result is its block r, the rest is scratch.
///
/// Strategies: direct, binomial_tree. T is any type that may be copied as bytes. Throws usage_error (sizes, no such
/// root), and as all_reduce.
template<class Strategy = strategy_by_default<collective::scatter>, collective_communicator C, buffer In,
         buffer_of<element_of<In>> Out>
    requires byte_copyable<element_of<In>>
in_flight<element_of<In>, detail::no_op, C> start_scatter(C& comm, In&& input, Out&& output, std::size_t block,
                                                          int root = 0) {
    using T = element_of<In>;
    std::span<T const> const in(input);
    std::span<T> const out(output);
    detail::check_root("scatter", root, comm.size());
    auto const n = static_cast<std::size_t>(comm.size()), r = static_cast<std::size_t>(comm.rank());
    auto const s = detail::schedule_for<Strategy, collective::scatter, T>(comm, n * block, root);
    if (comm.rank() == root && in.size() != n * block)
        detail::wrong_size("scatter", "root's input", in.size(),
                           std::to_string(n * block) + ", a block of " + std::to_string(block) + " per rank");
    bool const one_block = out.size() != n * block;
    if (one_block && (out.size() != block || detail::written_by(s, comm.rank()) == detail::output_part::whole))
        detail::wrong_size("scatter", "output", out.size(),
                           std::to_string(n * block) + ", a block of " + std::to_string(block) +
                               " per rank; one block is enough for the strategy direct");
    if (comm.rank() == root) detail::check_overlap<T>("scatter", in, 0, out, one_block ? r * block : 0);
    if (comm.rank() == root)
        detail::copy_elements(in.data() + r * block, out.data() + (one_block ? 0 : r * block), block);
    auto call = detail::call_of<T, detail::no_op>(collective::scatter, s, n * block, in, out);
    if (one_block) call.out_from = r * block * sizeof(T);
    return {comm, s, {n * block, sizeof(T), s.chunks, comm.size()}, call, {}};
}

/// Gives every rank its block of the root's `input`, and returns when it is there. See start_scatter.
template<class Strategy = strategy_by_default<collective::scatter>, collective_communicator C, buffer In,
         buffer_of<element_of<In>> Out>
    requires byte_copyable<element_of<In>>
void scatter(C& comm, In&& input, Out&& output, std::size_t block, int root = 0) {
    start_scatter<Strategy>(comm, input, output, block, root).wait();
}

/// Returns this rank's block of the root's `input`: `auto const mine = scatter(me, all, 100);`. Else as with two
/// buffers.
template<class Strategy = strategy_by_default<collective::scatter>, collective_communicator C, buffer In>
    requires byte_copyable<element_of<In>>
[[nodiscard]] std::vector<element_of<In>> scatter(C& comm, In&& input, std::size_t block, int root = 0) {
    using T = element_of<In>;
    detail::check_root("scatter", root, comm.size());
    auto const n = static_cast<std::size_t>(comm.size());
    auto const s = detail::schedule_for<Strategy, collective::scatter, T>(comm, n * block, root);
    bool const whole = detail::written_by(s, comm.rank()) == detail::output_part::whole;
    std::vector<T> mine(whole ? n * block : block);
    start_scatter<Strategy>(comm, input, mine, block, root).wait();
    if (mine.size() != block) {
        auto const from = mine.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(comm.rank()) * block);
        mine = std::vector<T>(from, from + static_cast<std::ptrdiff_t>(block));
    }
    return mine;
}

} // namespace trireme::inline TRIREME_ISA
