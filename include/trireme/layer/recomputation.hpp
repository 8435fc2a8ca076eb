// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/scratch.hpp>
#include <trireme/core/units.hpp>
#include <trireme/layer/network.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace trireme {

/// Stretches of a network whose values are computed again, one behind the other.
using recomputed_rows = std::span<range const>;

namespace detail {

/// The arrays of a recomputation, whatever the depth.
struct recomputation_arrays {
    std::size_t* from;
    bool* twice;
    bool* dropped;
};

/// Rows that go forward a second time on the way back, because their values were not kept. They lie in stretches: when
/// the way back comes to the last row of one, they go forward again, from the stretch's input, which was kept.
template<std::size_t Depth>
struct recomputation {
    std::size_t from[Depth + 1] = {}; ///< of the last row of a stretch: its first row; npos for all others
    bool twice[Depth + 1] = {}; ///< the row goes forward twice: backward needs its output, or a value computed from it
    bool dropped[Depth + 1] = {}; ///< slots whose values last no longer than the way there

    constexpr recomputation() { std::fill_n(from, Depth + 1, npos); }
    constexpr recomputation_arrays arrays() noexcept { return {from, twice, dropped}; }
};

/// Marks the rows of a stage that go forward twice, if the stage has its part of each stretch. `loss_follows`: the way
/// back begins at once, so that a stretch at the end still has its values. `weights_apart`: gradients by parameters are
/// computed in a task of their own, later; what they read is kept from the way there on, for it would be kept anyway
/// from the first task of the way back to the second. `saves_bytes`: as of plan_activations.
TRIREME_COLD constexpr void find_rows_again(row_list const& network, range rows, recomputed_rows stretches,
                                            bool loss_follows, bool weights_apart, bool saves_bytes,
                                            recomputation_arrays const& r) {
    scratch<bool> wanted(network.depth + 1); // slots
    for (auto const& stretch : stretches) {
        auto const begin = std::max(stretch.begin, rows.begin), end = std::min(stretch.end, rows.end);
        if (begin + 1 >= end || (loss_follows && end == rows.end)) continue;
        std::fill(r.dropped + begin + 1, r.dropped + end, true);
        for (auto i = begin; i < end && weights_apart; ++i) {
            auto const& row = network.row(i);
            if (!row.description.weights_wait()) continue;
            if (row.description.reads_input(saves_bytes)) r.dropped[row.from] = false;
            if (row.description.execution.backward_reads_output) r.dropped[i + 1] = false;
        }
        auto const is_view = [&](std::size_t i) { return network.row(i).description.execution.view; };
        for (auto i = end; i-- > begin;) // what a kept view views is kept with it, and so is a view of what is kept
            if (is_view(i) && !r.dropped[i + 1]) r.dropped[network.row(i).from] = false;
        for (auto i = begin; i + 1 < end; ++i)
            if (is_view(i) && !r.dropped[network.row(i).from]) r.dropped[i + 1] = false;
        for (auto i = end; i-- > begin;) {
            auto const& row = network.row(i);
            if (network.is_trained(i)) {
                wanted[row.from] |= row.description.reads_input(saves_bytes);
                wanted[i + 1] |= row.description.execution.backward_reads_output;
            }
            if (!wanted[i + 1] || !r.dropped[i + 1]) continue;
            r.twice[i] = true;
            r.from[end - 1] = begin;
            wanted[row.from] = true;
            if (row.is_sum()) wanted[row.other] = true;
        }
    }
}

/// FLOPs of a sample that goes forward a second time; see find_rows_again.
constexpr flops_t flops_again(row_list const& network, range rows, recomputed_rows stretches, bool loss_follows,
                              bool weights_apart, bool saves_bytes = false) {
    scratch<std::size_t> from(network.depth + 1, npos);
    scratch<bool> twice(network.depth + 1), dropped(network.depth + 1);
    find_rows_again(network, rows, stretches, loss_follows, weights_apart, saves_bytes,
                    {from.data(), twice.data(), dropped.data()});
    flops_t sum = 0;
    for (auto i = rows.begin; i < rows.end; ++i)
        if (twice[i]) sum += network.row(i).description.forward_flops;
    return sum;
}

} // namespace detail
} // namespace trireme
