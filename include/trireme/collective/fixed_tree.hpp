// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/reduction.hpp>
#include <trireme/collective/run.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/units.hpp>
#include <trireme/schedule/fixed_tree.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

namespace trireme::inline TRIREME_ISA {

/// Adds blocks as `reproducible<fixed_tree, V>` requires: all blocks of all ranks (a buffer holds a rank's blocks one
/// behind the other, `elements` apart) in the tree of schedule/fixed_tree.hpp. For the schedules of `direct`, where one
/// step reduces a chunk from all other ranks.
class add_in_fixed_tree {
public:
    /// `shards` of the whole group, at most max_shards; `elements` between two blocks of a buffer.
    constexpr add_in_fixed_tree(std::size_t shards, std::size_t elements) : shards_(shards), elements_(elements) {
        if (shards < 1 || shards > max_shards)
            throw usage_error("add_in_fixed_tree was given " + std::to_string(shards) + " shards; it takes 1 to " +
                              std::to_string(max_shards));
    }
    static constexpr std::size_t max_shards = std::size_t{1} << 15;

    template<class T>
    bytes_t operator()(reduction_view<T> const& v) const {
        if (v.step.sources.count != v.ranks - 1)
            throw usage_error(
                "add_in_fixed_tree reduces a chunk from all ranks at once: use it with the schedule direct");
        constexpr std::size_t piece = 256; // elements; the whole stack of partial sums stays in the first-level cache
        alignas(cache_line) T sums[16][piece];
        bytes_t bytes = 0;
        for (std::size_t at = 0; at < v.elements; at += piece) {
            auto const n = std::min(v.elements - at, piece);
            fixed_tree::stack tree;
            auto const merge = [&](std::size_t i, std::size_t j) { detail::add_into<T>(sums[i], sums[j], n); };
            for (int r = 0; r < v.ranks; ++r) {
                auto const blocks = fixed_tree::blocks(shards_of(r, v.ranks, shards_));
                auto const* const theirs = (r == v.rank ? v.own : v.sources[place_of(r, v)]) + at;
                auto const apart = r == v.rank || v.apart == nullptr ? elements_ : v.apart[place_of(r, v)];
                for (std::size_t b = 0; b < blocks.depth(); ++b) {
                    std::memcpy(sums[tree.depth()], theirs + b * apart, n * sizeof(T));
                    tree.push(blocks.block(b), merge);
                }
                if (r != v.rank) bytes += blocks.depth() * n * sizeof(T);
            }
            tree.finish(merge);
            std::memcpy(v.out + at, sums[0], n * sizeof(T));
            for (int k = 0; k < v.step.destinations.count; ++k) std::memcpy(v.copies[k] + at, sums[0], n * sizeof(T));
        }
        return bytes;
    }

    /// The number of blocks in a rank's buffer, for the ranks that send them (collective/message_run.hpp).
    std::size_t blocks(int rank, int ranks) const {
        return fixed_tree::blocks(shards_of(rank, ranks, shards_)).depth();
    }
    std::size_t between_blocks() const noexcept { return elements_; }

private:
    /// The place of a rank in the list of sources.
    template<class T>
    static int place_of(int rank, reduction_view<T> const& v) noexcept {
        int k = 0;
        while (v.step.sources.at(k, v.ranks) != rank) ++k;
        return k;
    }

    std::size_t shards_;
    std::size_t elements_;
};

} // namespace trireme::inline TRIREME_ISA
