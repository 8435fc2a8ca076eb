// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/bf16.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/cost.hpp>
#include <trireme/schedule/fixed_tree.hpp>
#include <trireme/schedule/play.hpp>
#include <trireme/schedule/rounds.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace trireme {

/// A piece of a round on devices that reach one another's memory: out and every copy receive own reduced with the
/// sources; with no sources, own is copied. Pointers stand in a table: out, own, sources, copies.
struct stream_move {
    std::uint64_t first_pointer;
    std::uint64_t elements;
    std::uint32_t sources;
    std::uint32_t copies;
};

/// Arithmetic of reductions in block programs, one number at a time; the operations and roundings are those of the
/// host's collectives, so that the bits are the same.
template<class T>
struct reduction_scalar {
    using type = T;
    TRIREME_HOST_DEVICE static T load(T x) { return x; }
    TRIREME_HOST_DEVICE static T store(T x) { return x; }
};
template<>
struct reduction_scalar<bf16> {
    using type = float;
    TRIREME_HOST_DEVICE static float load(bf16 x) { return static_cast<float>(x); }
    TRIREME_HOST_DEVICE static bf16 store(float x) { return bf16(x); }
};

enum class stream_op : int { sum, max, min };

template<stream_op Op, class V>
TRIREME_HOST_DEVICE V combined(V a, V b) {
    if constexpr (Op == stream_op::sum)
        return a + b;
    else if constexpr (Op == stream_op::max)
        return a > b ? a : b;
    else
        return a < b ? a : b;
}

/// As many numbers as one instruction loads.
template<class T, bool Packed>
struct alignas(Packed ? 16 : alignof(T)) number_packet {
    static constexpr std::uint32_t size = Packed ? 16 / sizeof(T) : 1;
    T value[size];

    template<stream_op Op>
    TRIREME_HOST_DEVICE void combine(number_packet const& other) {
        using scalar = reduction_scalar<T>;
        for (std::uint32_t j = 0; j < size; ++j)
            value[j] = scalar::store(combined<Op>(scalar::load(value[j]), scalar::load(other.value[j])));
    }
};

/// Performs rounds of moves, a barrier of the block after each. Every block takes the same share of the elements of
/// every move, so that what one round writes and the next reads is the same block's: a whole schedule is one kernel,
/// which waits for nobody.
///
/// A thread moves packets, several of one move at a time: of 16 bytes where all buffers begin on 16 bytes. Reads each
/// source once, writes each copy once.
template<class T, stream_op Op, bool Packed>
struct move_program {
    static constexpr std::uint32_t threads = 512;
    using shared = nothing_kept;
    using own = nothing_kept;
    using packet = number_packet<T, Packed>;

    stream_move const* moves;
    void* const* pointers;
    std::uint32_t const* round_begin; ///< of the moves; one more entry than rounds
    std::uint32_t first_round;
    std::uint32_t rounds;

    TRIREME_HOST_DEVICE int phases() const { return static_cast<int>(rounds); }

    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared&, own&) const {
        auto const begin = round_begin[first_round + static_cast<std::uint32_t>(k)];
        auto const end = round_begin[first_round + static_cast<std::uint32_t>(k) + 1];
        for (auto m = begin; m < end; ++m) perform(moves[m], at);
    }

private:
    static constexpr std::uint32_t in_flight = 4; ///< packets of a thread, whose loads are on their way together

    /// A block's share of a move.
    TRIREME_HOST_DEVICE void perform(stream_move const& m, block_place at) const {
        auto* const* const table = pointers + m.first_pointer;
        std::uint64_t const all = (m.elements + packet::size - 1) / packet::size, whole = m.elements / packet::size;
        std::uint64_t const end = all * (at.block + 1) / at.blocks;
        for (auto p = all * at.block / at.blocks + at.thread; p < end; p += in_flight * threads) {
            reduce(m, table, p, end < whole ? end : whole);
            for (std::uint32_t j = 0; j < in_flight; ++j) // the last one, which is shorter
                if (auto const last = p + j * threads; last == whole && last < end)
                    for (auto i = last * packet::size; i < m.elements; ++i) reduce_number(m, table, i);
        }
    }

    /// Whole packets p, p + threads, ... below `end`, as many as are in flight.
    TRIREME_HOST_DEVICE void reduce(stream_move const& m, void* const* table, std::uint64_t p,
                                    std::uint64_t end) const {
        packet x[in_flight];
        auto const each = [p, end](auto const& f) {
            for (std::uint32_t j = 0; j < in_flight; ++j)
                if (p + j * threads < end) f(j, (p + j * threads) * packet::size);
        };
        auto const place = [](void* of, std::uint64_t at) {
            return reinterpret_cast<packet*>(static_cast<T*>(of) + at);
        };
        each([&](std::uint32_t j, std::uint64_t at) { x[j] = *place(table[1], at); });
        for (std::uint32_t k = 0; k < m.sources; ++k)
            each([&](std::uint32_t j, std::uint64_t at) { x[j].template combine<Op>(*place(table[2 + k], at)); });
        each([&](std::uint32_t j, std::uint64_t at) { *place(table[0], at) = x[j]; });
        for (std::uint32_t k = 0; k < m.copies; ++k)
            each([&](std::uint32_t j, std::uint64_t at) { *place(table[2 + m.sources + k], at) = x[j]; });
    }
    TRIREME_HOST_DEVICE void reduce_number(stream_move const& m, void* const* table, std::uint64_t at) const {
        using number = number_packet<T, false>;
        auto const place = [at](void* of) { return reinterpret_cast<number*>(static_cast<T*>(of) + at); };
        number x = *place(table[1]);
        for (std::uint32_t k = 0; k < m.sources; ++k) x.template combine<Op>(*place(table[2 + k]));
        *place(table[0]) = x;
        for (std::uint32_t k = 0; k < m.copies; ++k) *place(table[2 + m.sources + k]) = x;
    }
};

/// Adds blocks in one fixed binary tree, element by element: leaf after leaf is pushed, and after leaf i the top two
/// are added merges[i] times. All copies get the result.
template<class T>
struct tree_program {
    static constexpr std::uint32_t threads = 256;
    static constexpr int depth = 32;
    using shared = nothing_kept;
    using own = nothing_kept;
    using scalar = reduction_scalar<T>;

    void* const* leaves; ///< then the copies
    std::uint32_t const* merges;
    std::uint32_t leaf_count;
    std::uint32_t copies;
    std::uint64_t begin, end; ///< elements

    TRIREME_HOST_DEVICE int phases() const { return 1; }
    TRIREME_HOST_DEVICE void phase(int, block_place at, shared&, own&) const {
        for (std::uint64_t i = begin + std::uint64_t{at.block} * threads + at.thread; i < end;
             i += std::uint64_t{at.blocks} * threads) {
            T const sum = leaf_count <= few ? sum_of_few(i) : sum_of_many(i);
            for (std::uint32_t k = 0; k < copies; ++k) static_cast<T*>(leaves[leaf_count + k])[i] = sum;
        }
    }

private:
    static constexpr std::uint32_t few = 8;

    TRIREME_HOST_DEVICE T leaf_at(std::uint32_t leaf, std::uint64_t i) const {
        return static_cast<T const*>(leaves[leaf])[i];
    }
    TRIREME_HOST_DEVICE static T added(T earlier, T later) {
        return scalar::store(scalar::load(earlier) + scalar::load(later));
    }
    /// All leaves are on their way at a time. The stack's top is its first number, so that every place is known to the
    /// compiler, and a register.
    TRIREME_HOST_DEVICE T sum_of_few(std::uint64_t i) const {
        T x[few], stack[few] = {};
        for (std::uint32_t leaf = 0; leaf < few; ++leaf)
            if (leaf < leaf_count) x[leaf] = leaf_at(leaf, i);
        for (std::uint32_t leaf = 0; leaf < few; ++leaf) {
            if (leaf >= leaf_count) continue;
            for (std::uint32_t j = few - 1; j > 0; --j) stack[j] = stack[j - 1];
            stack[0] = x[leaf];
            for (std::uint32_t m = merges[leaf]; m > 0; --m) {
                stack[0] = added(stack[1], stack[0]);
                for (std::uint32_t j = 1; j + 1 < few; ++j) stack[j] = stack[j + 1];
            }
        }
        return stack[0];
    }
    TRIREME_HOST_DEVICE T sum_of_many(std::uint64_t i) const {
        T stack[depth];
        std::uint32_t top = 0;
        for (std::uint32_t leaf = 0; leaf < leaf_count; ++leaf) {
            stack[top++] = leaf_at(leaf, i);
            for (std::uint32_t m = merges[leaf]; m > 0; --m, --top)
                stack[top - 2] = added(stack[top - 2], stack[top - 1]);
        }
        return stack[0];
    }
};

/// The leaves of the fixed tree of `shards` logical shards over `ranks`: the blocks that each rank is left with.
constexpr std::size_t tree_leaves_of(int rank, int ranks, std::size_t shards) {
    return fixed_tree::blocks(shards_of(rank, ranks, shards)).depth();
}
constexpr std::size_t tree_leaves(int ranks, std::size_t shards) {
    std::size_t sum = 0;
    for (int r = 0; r < ranks; ++r) sum += tree_leaves_of(r, ranks, shards);
    return sum;
}

/// The number of times that tree_program adds after each leaf; calls leaf(rank, block) for each of them, in order.
template<class Leaf>
std::vector<std::uint32_t> tree_merges(int ranks, std::size_t shards, Leaf&& leaf) {
    std::vector<std::uint32_t> merges;
    fixed_tree::stack tree;
    auto const count = [&](std::size_t, std::size_t) { ++merges.back(); };
    for (int r = 0; r < ranks; ++r) {
        auto const blocks = fixed_tree::blocks(shards_of(r, ranks, shards));
        for (std::size_t b = 0; b < blocks.depth(); ++b) {
            leaf(r, b);
            merges.push_back(0);
            tree.push(blocks.block(b), count);
        }
    }
    tree.finish(count);
    return merges;
}

/// The bytes of the table that tree_program reads from a device's memory: its leaves, its copies, and how often it
/// adds.
constexpr std::size_t tree_table_bytes(int ranks, std::size_t shards, std::size_t copies) {
    auto const leaves = tree_leaves(ranks, shards);
    return (leaves + copies) * sizeof(void*) + round_up<std::size_t>(leaves * sizeof(std::uint32_t), sizeof(void*));
}

} // namespace trireme
