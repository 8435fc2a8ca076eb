// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/core/units.hpp>
#include <trireme/layer/network.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace trireme {

/// Segments of a network: the rows between two places where it can be cut into stages. There only the row's input
/// crosses, not a residual's second way, and no kernel does its work together with that of the row before; a view goes
/// with the row before, and so does, in stages, what its bias cancels in.
template<class Network, bool InStages = true>
struct network_segments {
    std::size_t count = 0;
    std::size_t begin[Network::depth + 2] = {}; ///< begin[count]: the network's end

    constexpr network_segments() {
        bool border[Network::depth + 1] = {};
        std::size_t reads = npos; // the first slot that the rows from r on read
        for (std::size_t r = Network::depth; r-- > 1;) {
            auto const& row = Network::row(r);
            auto const& d = row.description;
            reads = std::min({reads, row.from, row.other});
            bool const view = d.execution.view && !row.is_fork();
            bool const fused =
                (Network::row(r - 1).description.execution.applies && d.execution.in_place && d.parameter_count == 0) ||
                (InStages && detail::bias_cancels(Network::row(r - 1), row));
            border[r] = reads >= r && !view && !fused;
        }
        for (std::size_t r = 0; r < Network::depth; ++r)
            if (r == 0 || border[r]) begin[count++] = r;
        begin[count] = Network::depth;
    }
    constexpr bool has(std::size_t row) const noexcept {
        for (std::size_t i = 0; i < count; ++i)
            if (begin[i] == row) return true;
        return false;
    }
};
template<class Network>
inline constexpr network_segments<Network> segments_of{};

namespace detail {

/// Costs of the stages that a network can be cut into, as sums over its segments. A stage that holds more segments
/// costs as much or more.
template<std::size_t Depth>
struct stage_costs {
    std::uint64_t before[Depth + 2] = {}; ///< of all segments before this one
    std::uint64_t first[Depth + 2] = {};  ///< more, where a stage begins with this segment
    std::uint64_t behind[Depth + 2] = {}; ///< less, where a stage ends before this segment

    constexpr std::uint64_t of(range segments) const noexcept {
        return before[segments.end] - before[segments.begin] + first[segments.begin] - behind[segments.end];
    }
};

/// The rows of one of `count` stages, in the cut whose costliest stage costs the least; where that leaves a choice,
/// earlier stages have more rows. A bisection over the cost: about log2(cost) walks over the segments.
template<class Network>
constexpr range balanced_rows(stage_costs<Network::depth> const& costs, int count, int stage) {
    auto const& segments = segments_of<Network>;
    auto const n = segments.count, all = static_cast<std::size_t>(count);
    // filled one after the other up to `most`, but with a segment left for each of those behind
    auto const end_of = [&](std::size_t s, std::size_t begin, std::uint64_t most) {
        auto end = begin;
        while (end < n - (all - 1 - s) && (end == begin || costs.of({begin, end + 1}) <= most)) ++end;
        return costs.of({begin, end}) <= most ? end : n + 1;
    };
    std::uint64_t low = 0, high = costs.of({0, n});
    while (low < high) {
        auto const most = low + (high - low) / 2;
        std::size_t end = 0;
        for (std::size_t s = 0; s < all && end < n; ++s) end = end_of(s, end, most);
        if (end == n)
            high = most;
        else
            low = most + 1;
    }
    range found;
    for (std::size_t s = 0; s <= static_cast<std::size_t>(stage); ++s) found = {found.end, end_of(s, found.end, high)};
    return {segments.begin[found.begin], segments.begin[found.end]};
}

template<class Network>
inline constexpr auto flops_of_stages = [] {
    stage_costs<Network::depth> costs;
    auto const& segments = segments_of<Network>;
    for (std::size_t i = 0; i < segments.count; ++i)
        costs.before[i + 1] = costs.before[i] + Network::flops({segments.begin[i], segments.begin[i + 1]}).total();
    return costs;
}();

/// Numbers that a stage holds: `PerParameter` for each parameter, and for each of `Samples` the values that its rows
/// read on the way back. A value at a border is held on both sides where rows of both read it.
template<class Network, std::size_t Samples, std::size_t PerParameter>
constexpr stage_costs<Network::depth> numbers_of_stages() {
    constexpr auto depth = Network::depth;
    std::size_t whole[depth + 1] = {}; // the slot in whose memory a slot lies: its own, or that of what it is a view of
    std::size_t first_reader[depth + 1] = {}, last_reader[depth + 1] = {}; // on the way back
    for (std::size_t i = 0; i < depth; ++i)
        whole[i + 1] = Network::row(i).description.execution.view ? whole[Network::row(i).from] : i + 1;
    for (auto& reader : first_reader) reader = npos;
    auto const reads = [&](std::size_t row, std::size_t slot) {
        first_reader[whole[slot]] = std::min(first_reader[whole[slot]], row);
        last_reader[whole[slot]] = row;
    };
    for (std::size_t i = Network::first_trainable; i < depth; ++i) {
        auto const& execution = Network::row(i).description.execution;
        if (execution.backward_reads_input) reads(i, Network::row(i).from);
        if (execution.backward_reads_output) reads(i, i + 1);
    }

    stage_costs<depth> costs;
    auto const& segments = segments_of<Network>;
    std::uint64_t values = 0; // of the slots so far
    std::size_t slot = 0;
    for (std::size_t i = 0; i <= segments.count; ++i) {
        auto const border = segments.begin[i], held = whole[border];
        for (; slot < border; ++slot)
            if (first_reader[slot + 1] != npos) values += Network::row(slot).description.output.size();
        auto const size = Samples * Network::row(border).input.size();
        bool const read = first_reader[held] != npos;
        auto const& row = Network::row(border);
        costs.before[i] = PerParameter * row.first_parameter + row.first_tied + Samples * values;
        costs.first[i] = read && last_reader[held] >= border ? size : 0;
        costs.behind[i] = read && first_reader[held] >= border ? size : 0;
    }
    return costs;
}
template<class Network, std::size_t Samples, std::size_t PerParameter>
inline constexpr auto held_by_stages = numbers_of_stages<Network, Samples, PerParameter>();

} // namespace detail

/// Cut of a network in which the stage with the most FLOPs of training (once each: not what recompute adds) has as few
/// as possible; where that leaves a choice, earlier stages have more rows.
struct balanced_by_flops {
    static constexpr std::size_t stages = 0; ///< any number

    template<class Network>
    static constexpr range rows(int count, int stage) {
        return detail::balanced_rows<Network>(detail::flops_of_stages<Network>, count, stage);
    }
};

/// Cut of a network in which the stage that holds the most numbers holds as few as possible; where that leaves a
/// choice, earlier stages have more rows. A stage holds PerParameter numbers for each of its parameters: the weight,
/// its gradient, and, if there are 3, one number of the optimizer (momentum; adam has two). It holds for each of
/// Samples the values that its layers read on the way back; a value that layers on both sides of a cut read counts for
/// both stages. Samples are those that a device holds at once: of a micro-batch, times the micro-batches on their way.
///
/// A tied row has a gradient alone. Not counted are its copy of weights, buffers, gradients by values, what a stage
/// only sends on, and what kernels need within a task. All stages hold as many samples, though by one_f_one_b the first
/// ones hold more; training_plan::memory(device) has the bytes of each device.
template<std::size_t Samples, std::size_t PerParameter = 3>
struct balanced_by_memory_of {
    static constexpr std::size_t stages = 0; ///< any number

    template<class Network>
    static constexpr range rows(int count, int stage) {
        return detail::balanced_rows<Network>(detail::held_by_stages<Network, Samples, PerParameter>, count, stage);
    }
};

/// Cut of a network that balances memory for 32 samples and one number of an optimizer beside each weight and gradient:
/// balanced_by_memory_of<32, 3>.
struct balanced_by_memory : balanced_by_memory_of<32> {};

/// Cut of a network before these rows: `cut_before<3, 7>` makes three stages of it.
template<std::size_t... Row>
struct cut_before {
    static constexpr std::size_t stages = sizeof...(Row) + 1;

    template<class Network>
    static constexpr range rows(int, int stage) {
        constexpr std::size_t at[] = {0, Row..., Network::depth};
        return {at[stage], at[stage + 1]};
    }
};

} // namespace trireme
