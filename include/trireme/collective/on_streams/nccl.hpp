// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/on_streams/moves.hpp>
#include <trireme/collective/on_streams/peer.hpp>
#include <trireme/core/deadline.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/device/upload_table.hpp>
#include <trireme/group/transport/nccl/group.hpp>
#include <trireme/schedule/collective/native.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/cost.hpp>
#include <trireme/schedule/fixed_tree.hpp>
#include <trireme/schedule/messages.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// out = (own + source 0) + source 1 + ..., element by element, the sources `stride` elements apart: operations and
/// roundings are those of move_program and of the host.
template<class T, bool Packed>
struct staged_sum_program {
    static constexpr std::uint32_t threads = 512;
    using shared = nothing_kept;
    using own = nothing_kept;
    using packet = number_packet<T, Packed>;

    T const* mine;
    T const* staged;
    T* out;
    std::uint64_t elements;
    std::uint64_t stride;
    std::uint32_t sources;

    TRIREME_HOST_DEVICE int phases() const { return 1; }
    TRIREME_HOST_DEVICE void phase(int, block_place at, shared&, own&) const {
        std::uint64_t const packets = (elements + packet::size - 1) / packet::size;
        for (std::uint64_t i = std::uint64_t{at.block} * threads + at.thread; i < packets;
             i += std::uint64_t{at.blocks} * threads) {
            auto e = i * packet::size;
            if (e + packet::size <= elements) {
                add<packet>(e);
            } else {
                for (; e < elements; ++e) add<number_packet<T, false>>(e);
            }
        }
    }

private:
    template<class P>
    TRIREME_HOST_DEVICE void add(std::uint64_t e) const {
        P x = *reinterpret_cast<P const*>(mine + e);
        for (std::uint32_t k = 0; k < sources; ++k)
            x.template combine<stream_op::sum>(*reinterpret_cast<P const*>(staged + k * stride + e));
        *reinterpret_cast<P*>(out + e) = x;
    }
};

/// The reduction in a fixed tree, by messages: what a rank holds of it in its device's memory. Rank r adds part r of
/// all blocks of all ranks, and sends the sum to everybody.
struct staged_tree {
    int ranks = 1;
    std::size_t shards = 0;
    std::size_t elements = 0;
    std::size_t element_bytes = 0;

    constexpr std::size_t blocks(int rank) const noexcept { return tree_leaves_of(rank, ranks, shards); }
    constexpr range part(int rank) const noexcept { return chunk_range(elements, rank, ranks, element_bytes); }
    constexpr std::size_t stride(int rank) const noexcept {
        return round_up<std::size_t>(part(rank).size() * element_bytes, staging_unit);
    }
    constexpr std::size_t staging(int rank) const noexcept {
        return (tree_leaves(ranks, shards) - blocks(rank)) * stride(rank);
    }
    constexpr std::size_t table() const noexcept { return tree_table_bytes(ranks, shards, 1); }
};

/// One reduction of an nccl_group, on fixed buffers of the process's ranks, to be handed to their streams as often as
/// one likes, also in a capture: nothing is allocated then, and the host waits for no device. Reductions of one group
/// share memory to receive in, and NCCL wants one order of its calls on all ranks: hand them to streams that are
/// ordered one after the other.
template<accelerator Device, class T>
class nccl_collective {
public:
    using stream = typename Device::stream;
    using group_type = nccl_group<Device>;

    /// NCCL's own, in place, of `elements` numbers at data[local].
    nccl_collective(group_type& group, native, std::size_t number, std::size_t elements, std::vector<T*> const& data)
        : group_(&group), operation_{"all_reduce", native::name, number, elements * sizeof(T)} {
        auto const s = native::all_reduce(group.size());
        stage only;
        for (int i = 0; i < group.local_ranks(); ++i) {
            if (elements != 0)
                only.calls.push_back({nccl_call::kind::all_reduce, i, 0, nccl_dtype<T>(),
                                      data[static_cast<std::size_t>(i)], elements, nullptr});
            moved_.push_back(traffic_of(s, group.first_rank() + i, elements, sizeof(T)));
        }
        stages_.push_back(std::move(only));
    }

    /// A schedule that has been proved. staging[local] is memory of the device, staging_bytes of it, on 16 bytes.
    nccl_collective(group_type& group, schedule const& s, std::size_t number, buffer_cut const& cut,
                    std::vector<stream_buffers<T>> const& buffers, std::vector<void*> const& staging)
        : group_(&group), operation_{"all_reduce", s.name, number, cut.elements * sizeof(T)} {
        auto const all = messages_of(s);
        for (int i = 0; i < group.local_ranks(); ++i) moved_.push_back(traffic_of(all, group.first_rank() + i, cut));
        for (auto const& round : all.rounds) {
            stage first, second;
            auto const add = [&](stage& to, round_message const& m) {
                auto const read = elements_of(cut, m.read, m.count), write = elements_of(cut, m.first, m.count);
                if (write.size() == 0) return;
                if (int const i = local(m.from); i >= 0) {
                    auto const& b = buffers[static_cast<std::size_t>(i)];
                    to.calls.push_back(
                        bytes(nccl_call::kind::send, i, m.to, (m.written ? b.out : b.in) + read.begin, write.size()));
                }
                if (int const i = local(m.to); i >= 0) {
                    auto* goal = buffers[static_cast<std::size_t>(i)].out + write.begin;
                    if (m.added) goal = staged(round, m.to, m.first, m.source, cut, staging);
                    to.calls.push_back(bytes(nccl_call::kind::receive, i, m.from, goal, write.size()));
                }
            };
            for (auto const& m : round.reads) add(first, m);
            for (auto const& m : round.pushes) add(second, m);
            for (auto const& sum : round.sums) {
                int const i = local(sum.rank);
                auto const piece = elements_of(cut, sum.first, sum.count);
                if (i < 0 || piece.size() == 0) continue;
                auto const& b = buffers[static_cast<std::size_t>(i)];
                first.sums.push_back(
                    {i,
                     {(sum.written ? b.out : b.in) + piece.begin, staged(round, sum.rank, sum.first, 0, cut, staging),
                      b.out + piece.begin, piece.size(), staged_at(round, sum.rank, sum.first, cut).stride / sizeof(T),
                      static_cast<std::uint32_t>(sum.sources)}});
            }
            for (auto* made : {&first, &second})
                if (!made->calls.empty() || !made->sums.empty()) stages_.push_back(std::move(*made));
        }
    }

    /// The fixed tree of `tree.shards` logical shards: a rank's blocks lie behind slots[local], `tree.elements` apart;
    /// all ranks get the sum in their first. staging[local] is tree.staging(rank) bytes, tables[local] tree.table().
    nccl_collective(group_type& group, staged_tree const& tree, std::vector<T*> const& slots,
                    std::vector<void*> const& staging, std::vector<void*> const& tables)
        : group_(&group), operation_{"all_reduce", "fixed_tree", 0, tree.elements * sizeof(T)} {
        stage first, second;
        for (int from = 0; from < tree.ranks; ++from)
            for (int to = 0; to < tree.ranks; ++to) {
                if (from == to) continue;
                for (std::size_t b = 0; b < tree.blocks(from); ++b)
                    send(first, from, to, tree.part(to), slots, b * tree.elements,
                         [&](int i) { return at(staging[static_cast<std::size_t>(i)], tree, to, from, b); });
                send(second, from, to, tree.part(from), slots, 0,
                     [&](int i) { return slots[static_cast<std::size_t>(i)] + tree.part(from).begin; });
            }
        for (int i = 0; i < group.local_ranks(); ++i) {
            int const rank = group.first_rank() + i;
            auto const part = tree.part(rank);
            traffic sum;
            for (int q = 0; q < tree.ranks; ++q)
                if (q != rank) {
                    sum.messages += 2;
                    sum.bytes += (tree.blocks(q) + 1) * part.size() * sizeof(T);
                }
            moved_.push_back(sum);
            if (part.size() != 0) first.trees.push_back({i, make_tree(tree, rank, i, slots, staging, tables)});
        }
        stages_.push_back(std::move(first));
        stages_.push_back(std::move(second));
    }

    /// Hands the reduction over. What streams[local] had before comes before, what it gets afterwards finds the result.
    void enqueue(std::span<stream* const> streams) {
        for (auto& s : stages_) {
            for (auto& c : s.calls) c.stream = streams[static_cast<std::size_t>(c.local)]->handle();
            group_->run(s.calls, operation_, first_time_);
            for (auto const& sum : s.sums) launch(*streams[static_cast<std::size_t>(sum.local)], sum.program);
            for (auto const& tree : s.trees)
                streams[static_cast<std::size_t>(tree.local)]->launch(
                    tree.program, detail::blocks_for<tree_program<T>>(tree.program.end - tree.program.begin, 1));
        }
        first_time_ = false;
    }

    /// The traffic that a rank receives from its peers, or pushes to them, each time.
    traffic moved(int local) const noexcept { return moved_[static_cast<std::size_t>(local)]; }

private:
    struct local_sum {
        int local;
        staged_sum_program<T, true> program; ///< in packets, if its buffers allow it
    };
    struct local_tree {
        int local;
        tree_program<T> program;
    };
    /// A group of calls, and what each rank then does by itself.
    struct stage {
        std::vector<nccl_call> calls;
        std::vector<local_sum> sums;
        std::vector<local_tree> trees;
    };

    int local(int rank) const noexcept {
        int const i = rank - group_->first_rank();
        return i >= 0 && i < group_->local_ranks() ? i : -1;
    }

    static nccl_call bytes(nccl_call::kind what, int local, int peer, T const* data, std::size_t elements) {
        return {what, local, peer, ncclUint8, const_cast<T*>(data), elements * sizeof(T), nullptr};
    }

    T* staged(message_round const& round, int rank, int first, int source, buffer_cut const& cut,
              std::vector<void*> const& staging) const {
        auto const place = staged_at(round, rank, first, cut);
        return reinterpret_cast<T*>(static_cast<std::byte*>(staging[static_cast<std::size_t>(local(rank))]) +
                                    place.offset + static_cast<std::size_t>(source) * place.stride);
    }

    static void launch(stream& to, staged_sum_program<T, true> const& p) {
        auto const aligned = [](void const* x) { return reinterpret_cast<std::uintptr_t>(x) % 16 == 0; };
        if (aligned(p.mine) && aligned(p.staged) && aligned(p.out)) {
            to.launch(p, detail::blocks_for<staged_sum_program<T, true>>(p.elements, number_packet<T, true>::size));
        } else {
            staged_sum_program<T, false> const one_by_one{p.mine, p.staged, p.out, p.elements, p.stride, p.sources};
            to.launch(one_by_one, detail::blocks_for<staged_sum_program<T, false>>(p.elements, 1));
        }
    }

    // ---- the tree ----

    template<class Goal>
    void send(stage& to_stage, int from, int to, range part, std::vector<T*> const& slots, std::size_t slot,
              Goal const& goal) {
        if (part.size() == 0) return;
        if (int const i = local(from); i >= 0)
            to_stage.calls.push_back(bytes(nccl_call::kind::send, i, to,
                                           slots[static_cast<std::size_t>(i)] + slot + part.begin, part.size()));
        if (int const i = local(to); i >= 0)
            to_stage.calls.push_back(bytes(nccl_call::kind::receive, i, from, goal(i), part.size()));
    }

    /// The address at which `rank` has received its part of block `b` of `from`.
    static T* at(void* staging, staged_tree const& tree, int rank, int from, std::size_t b) {
        std::size_t before = b;
        for (int q = 0; q < from; ++q)
            if (q != rank) before += tree.blocks(q);
        return reinterpret_cast<T*>(static_cast<std::byte*>(staging) + before * tree.stride(rank));
    }

    tree_program<T> make_tree(staged_tree const& tree, int rank, int i, std::vector<T*> const& slots,
                              std::vector<void*> const& staging, std::vector<void*> const& tables) {
        auto const part = tree.part(rank);
        auto* const mine = slots[static_cast<std::size_t>(i)];
        std::vector<std::uintptr_t> pointers; // to element 0 of each, wherever that would be
        auto const merges = tree_merges(tree.ranks, tree.shards, [&](int q, std::size_t b) {
            pointers.push_back(q == rank ? reinterpret_cast<std::uintptr_t>(mine + b * tree.elements)
                                         : reinterpret_cast<std::uintptr_t>(
                                               at(staging[static_cast<std::size_t>(i)], tree, rank, q, b)) -
                                               part.begin * sizeof(T));
        });
        pointers.push_back(reinterpret_cast<std::uintptr_t>(mine));
        auto* const table = static_cast<std::byte*>(tables[static_cast<std::size_t>(i)]);
        lay_down(rank, group_->device_of(i), table, pointers, merges, tree.table());
        return {reinterpret_cast<void* const*>(table),
                reinterpret_cast<std::uint32_t const*>(table + pointers.size() * sizeof(void*)),
                static_cast<std::uint32_t>(merges.size()),
                1,
                part.begin,
                part.end};
    }

    void lay_down(int rank, int device, void* table, std::vector<std::uintptr_t> const& pointers,
                  std::vector<std::uint32_t> const& merges, std::size_t size) const {
        std::vector<std::byte> all(size);
        std::memcpy(all.data(), pointers.data(), pointers.size() * sizeof(void*));
        std::memcpy(all.data() + pointers.size() * sizeof(void*), merges.data(), merges.size() * sizeof(std::uint32_t));
        upload_table<Device>(rank, device, table, all.data(), size, group_->wait_limit());
    }

    group_type* group_;
    nccl_operation operation_;
    std::vector<stage> stages_;
    std::vector<traffic> moved_;
    bool first_time_ = true;
};

} // namespace trireme
