// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>

#include <cstddef>

namespace trireme {

/// The one binary tree in which the partial sums of V logical shards are added, whatever number of devices they lie on.
///
/// A node is a block [begin, end) of shards. Blocks are pushed in order; two neighbours of equal size that are halves
/// of one aligned block merge at once, and what is left at the end merges from the right. For V = 8 that is
/// ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)); for V = 6 it is ((0 + 1) + (2 + 3)) + (4 + 5).
///
/// A device that owns a contiguous range of shards folds what it can alone, and keeps at most 2 log2(V) blocks; pushing
/// the blocks of all devices in order completes the same tree. Bits therefore do not depend on the number of devices.
struct fixed_tree {
    /// Merges that follow when a block ending before `end` lies on a stack of blocks: true if the top two are halves of
    /// one aligned block.
    static constexpr bool merges(range left, range right) noexcept {
        return left.size() == right.size() && left.begin % (2 * left.size()) == 0;
    }

    static constexpr std::size_t max_depth = 32;

    /// The stack of blocks while shards or blocks are pushed. `Merge(i, j)` is told to add block slot j into slot i.
    class stack {
    public:
        /// Pushes a block and merges while possible. Slots are stack positions: block k lives in slot k.
        template<class Merge>
        constexpr void push(range block, Merge&& merge) {
            blocks_[depth_++] = block;
            while (depth_ >= 2 && merges(blocks_[depth_ - 2], blocks_[depth_ - 1])) pop(merge);
        }

        /// Merges what is left, from the right, into slot 0.
        template<class Merge>
        constexpr void finish(Merge&& merge) {
            while (depth_ >= 2) pop(merge);
        }

        constexpr std::size_t depth() const noexcept { return depth_; }
        constexpr range block(std::size_t i) const noexcept { return blocks_[i]; }

    private:
        template<class Merge>
        constexpr void pop(Merge&& merge) {
            merge(depth_ - 2, depth_ - 1);
            blocks_[depth_ - 2].end = blocks_[depth_ - 1].end;
            --depth_;
        }

        range blocks_[2 * max_depth] = {};
        std::size_t depth_ = 0;
    };

    /// The number of gradient slots that a device needs for its shards `owned`: the greatest depth of its stack.
    static constexpr std::size_t slots(range owned) noexcept {
        stack s;
        std::size_t deepest = 0;
        for (auto shard = owned.begin; shard < owned.end; ++shard) {
            if (s.depth() + 1 > deepest) deepest = s.depth() + 1;
            s.push({shard, shard + 1}, [](std::size_t, std::size_t) {});
        }
        return deepest;
    }

    /// The blocks a device is left with when its shards `owned` are computed and folded.
    static constexpr stack blocks(range owned) noexcept {
        stack s;
        for (auto shard = owned.begin; shard < owned.end; ++shard)
            s.push({shard, shard + 1}, [](std::size_t, std::size_t) {});
        return s;
    }
};

/// Shards of device `rank` of `devices`: contiguous, sizes differ by at most one.
constexpr range shards_of(int rank, int devices, std::size_t shards) noexcept {
    return part(shards, static_cast<std::size_t>(rank), static_cast<std::size_t>(devices));
}

} // namespace trireme
