// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/schedule/collective/schedule.hpp>

namespace trireme {

/// Elements of chunk `chunk` in a buffer of `elements`. Chunks begin on cache lines of the buffer,
/// so that no two ranks write one line of an aligned one.
constexpr range chunk_range(std::size_t elements, int chunk, int chunks, std::size_t element_bytes) noexcept {
    auto const unit = cache_line / element_bytes;
    return part(elements, static_cast<std::size_t>(chunk), static_cast<std::size_t>(chunks), unit);
}

/// The cut of a buffer into the parts of a schedule: as a whole, on cache lines; or, where it consists of a block per
/// rank, first into these blocks, which are of equal size or begin at `offsets`.
struct buffer_cut {
    std::size_t elements = 0;
    std::size_t element_bytes = 0;
    int chunks = 1;
    int blocks = 1;                       ///< of elements / blocks each, unless there are offsets
    std::size_t const* offsets = nullptr; ///< blocks + 1 of them, from 0 to elements: for blocks that differ in size

    constexpr range at(int place) const noexcept {
        if (blocks == 1) return chunk_range(elements, place, chunks, element_bytes);
        int const per = chunks / blocks;
        auto const block = static_cast<std::size_t>(place / per);
        auto size = elements / static_cast<std::size_t>(blocks);
        auto begin = block * size;
        if (offsets != nullptr) {
            begin = offsets[block];
            size = offsets[block + 1] - begin;
        }
        auto const within = chunk_range(size, place % per, per, element_bytes);
        return {begin + within.begin, begin + within.end};
    }
};

namespace detail {

template<collective_schedule S>
constexpr int place_in(S const& s, int chunk) noexcept {
    if constexpr (requires { s.place(chunk); })
        return s.place(chunk);
    else
        return chunk;
}

/// The bytes that one message of a step carries.
template<collective_schedule S>
constexpr bytes_t bytes_of(S const& s, collective_step const& step, buffer_cut const& cut) noexcept {
    bytes_t bytes = 0;
    for (int j = 0; j < step.chunk.count; ++j)
        bytes += cut.at(place_in(s, step.chunk.at(j, s.chunks))).size() * cut.element_bytes;
    return bytes;
}

/// f(peers, bytes) for what `rank` reads from peers, or writes to them, in one run of `s`: a message each.
template<collective_schedule S, class F>
constexpr void for_messages(S const& s, int rank, buffer_cut const& cut, F const& f) {
    for (int i = 0; i < s.steps; ++i) {
        auto const step = s.at(rank, i);
        if (!reads(step.kind)) continue;
        auto const bytes = bytes_of(s, step, cut);
        f(step.sources, bytes);
        f(step.destinations, bytes);
    }
}

} // namespace detail

/// Messages and bytes that `rank` reads from its peers, or writes to them, in one run of `s`.
template<collective_schedule S>
constexpr traffic traffic_of(S const& s, int rank, buffer_cut const& cut) noexcept {
    traffic sum;
    detail::for_messages(s, rank, cut, [&](rank_list const& peers, bytes_t bytes) {
        auto const count = static_cast<std::uint64_t>(peers.count);
        sum += {count, count * bytes};
    });
    return sum;
}

/// Traffic by the level of the link: at[i] is what moves between ranks whose first common level is i, at[0] therefore
/// within the innermost groups.
struct traffic_by_level {
    traffic at[levels::most + 1] = {}; ///< at[i]: between ranks whose first common level is i

    constexpr traffic total() const noexcept {
        traffic sum;
        for (auto const& t : at) sum += t;
        return sum;
    }
};

/// Messages and bytes that `rank`, which lies in `groups`, reads or writes in one run of `s`, by the level of the link.
template<collective_schedule S>
constexpr traffic_by_level traffic_of(S const& s, int rank, buffer_cut const& cut, levels const& groups) noexcept {
    traffic_by_level sum;
    detail::for_messages(s, rank, cut, [&](rank_list const& peers, bytes_t bytes) {
        for (int k = 0; k < peers.count; ++k) sum.at[groups.shared_by(rank, peers.at(k, s.ranks))] += {1, bytes};
    });
    return sum;
}

template<collective_schedule S>
constexpr traffic traffic_of(S const& s, int rank, std::size_t elements, std::size_t element_bytes) noexcept {
    return traffic_of(s, rank, {elements, element_bytes, s.chunks});
}

} // namespace trireme
