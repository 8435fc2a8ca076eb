// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/schedule/collective/schedule.hpp>

namespace trireme {

/// Elements of chunk `chunk` in a buffer of `elements`. Chunks begin on cache lines, so that no two ranks write one
/// line.
constexpr range chunk_range(std::size_t elements, int chunk, int chunks, std::size_t element_bytes) noexcept {
    auto const unit = cache_line / element_bytes;
    return part(elements, static_cast<std::size_t>(chunk), static_cast<std::size_t>(chunks), unit);
}

/// Messages and bytes that `rank` reads from its peers in one run of `s` over a buffer of `elements`.
template<collective_schedule S>
constexpr traffic traffic_of(S const& s, int rank, std::size_t elements, std::size_t element_bytes) noexcept {
    traffic sum;
    for (int i = 0; i < s.steps; ++i) {
        auto const step = s.at(rank, i);
        if (step.kind != step_kind::copy && step.kind != step_kind::reduce) continue;
        auto const sources = static_cast<std::uint64_t>(step.sources.count);
        sum.messages += sources;
        sum.bytes += sources * chunk_range(elements, step.chunk, s.chunks, element_bytes).size() * element_bytes;
    }
    return sum;
}

} // namespace trireme
