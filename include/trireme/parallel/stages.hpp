// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/pack.hpp>
#include <trireme/core/units.hpp>
#include <trireme/layer/network.hpp>

#include <algorithm>
#include <cstddef>

namespace trireme {

/// Segments of a network: the rows between two places where it can be cut into stages. There only the row's input
/// crosses, not a residual's second way, and no kernel does its work together with that of the row before; a view goes
/// with the row before.
template<class Network>
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
                Network::row(r - 1).description.execution.applies && d.execution.in_place && d.parameter_count == 0;
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

/// Cut of a network in which the stage with the most FLOPs of training has as few as possible; where that leaves a
/// choice, earlier stages have more rows.
struct balanced_by_flops {
    static constexpr std::size_t stages = 0; ///< any number

    template<class Network>
    static constexpr range rows(int count, int stage) {
        auto const& segments = segments_of<Network>;
        auto const n = segments.count, all = static_cast<std::size_t>(count);
        auto const flops = [&](std::size_t segment) {
            return Network::flops({segments.begin[segment], segments.begin[segment + 1]}).total();
        };
        // filled one after the other up to `most`, but with a segment left for each of those behind
        auto const end_of = [&](std::size_t s, std::size_t begin, flops_t most) {
            auto end = begin;
            flops_t sum = 0;
            while (end < n - (all - 1 - s) && (end == begin || sum + flops(end) <= most)) sum += flops(end++);
            return sum <= most ? end : n + 1;
        };
        flops_t low = 0, high = Network::training_flops;
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
        for (std::size_t s = 0; s <= static_cast<std::size_t>(stage); ++s)
            found = {found.end, end_of(s, found.end, high)};
        return {segments.begin[found.begin], segments.begin[found.end]};
    }
};

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
