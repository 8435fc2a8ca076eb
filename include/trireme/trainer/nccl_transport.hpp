// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/on_streams/nccl.hpp>
#include <trireme/group/transport/nccl/group.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/messages.hpp>
#include <trireme/trainer/policy_arguments.hpp>
#include <trireme/trainer/stream_transport.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trireme {

/// The ranks of a trainer are spread over processes, and joined by NCCL. Strategies other than `native` give the bits
/// that they give everywhere.
///
/// Graphs that hold its work have to be gone before it is: NCCL keeps what they use until then. A process with several
/// GPUs hands its steps over without graphs: NVIDIA says that with them a launch may block for ever.
template<accelerator Device, class T>
class nccl_transport {
public:
    using stream = typename Device::stream;

    /// The bytes that a rank needs for the numbers that it receives.
    static constexpr bytes_t table_bytes(parallel_layout const& l, int rank, arena_extent const& arena,
                                         std::size_t element_bytes) {
        if (l.replicas == 1) return 0;
        if (l.reproducible()) {
            auto const tree = tree_of(l, arena.elements, element_bytes);
            return tree.staging(rank) + tree.table();
        }
        return staging_of(l, rank, arena.elements, element_bytes);
    }

    static constexpr bytes_t sum_bytes(int ranks, int rank, std::size_t elements, std::size_t element_bytes) {
        if (ranks == 1) return 0;
        auto const s = direct::all_reduce(ranks);
        return staging_bytes(s, {elements, element_bytes, s.chunks}, rank);
    }

    nccl_transport(parallel_layout const& l, auto const& r)
        : layout_(l), group_(std::make_unique<nccl_group<Device>>(
                          nccl_runtime::attendance{r.processes.value.index, r.processes.value.count, l.replicas,
                                                   r.processes.value.id_file, std::chrono::duration<double>(r.deadline),
                                                   r.processes.value.share, r.processes.value.with},
                          r.share_devices.value)) {}

    int first_rank() const noexcept { return group_->first_rank(); }
    int local_ranks() const noexcept { return group_->local_ranks(); }
    int device_of(int local) const noexcept { return group_->device_of(local); }
    bool captures() const noexcept { return local_ranks() == 1; }

    void prepare(int, std::vector<T*> const& gradients, arena_extent const& arena,
                 std::vector<layer_sum<T>> const& sums = {}) {
        if (layout_.replicas == 1) return;
        auto const elements = arena.elements;
        auto const in_place = [](std::vector<T*> const& numbers, std::size_t begin) {
            std::vector<stream_buffers<T>> buffers;
            for (auto* const n : numbers) buffers.push_back({n + begin, n + begin});
            return buffers;
        };
        for (auto const& sum : sums) {
            std::vector<void*> memory;
            for (int i = 0; i < local_ranks(); ++i) {
                staging_.emplace_back(device_of(i), sum_bytes(layout_.replicas, first_rank() + i, sum.count, sizeof(T)),
                                      "messages of the layers' sums");
                memory.push_back(staging_.back().data());
            }
            auto const s = direct::all_reduce(layout_.replicas);
            sums_.push_back(std::make_unique<collective_type>(*group_, s, layout_.reductions() + sums_.size(),
                                                              buffer_cut{sum.count, sizeof(T), s.chunks},
                                                              in_place(sum.numbers, 0), memory));
        }
        std::vector<void*> staging, tables;
        auto const tree = tree_of(layout_, elements, sizeof(T));
        for (int i = 0; i < local_ranks(); ++i) {
            int const rank = first_rank() + i;
            auto const bytes =
                layout_.reproducible() ? tree.staging(rank) : staging_of(layout_, rank, elements, sizeof(T));
            staging_.emplace_back(device_of(i), bytes, "messages of the collectives");
            staging.push_back(staging_.back().data());
            if (!layout_.reproducible()) continue;
            staging_.emplace_back(device_of(i), tree.table(), "tables of the collectives");
            tables.push_back(staging_.back().data());
        }
        if (layout_.reproducible()) {
            made_.push_back(std::make_unique<collective_type>(*group_, tree, gradients, staging, tables));
            return;
        }
        for (std::size_t i = 0; i < layout_.reductions(); ++i) {
            auto const part = layout_.reduced_by(i, elements);
            if (layout_.strategy_of(i).is<native>()) {
                std::vector<T*> data;
                for (auto* const g : gradients) data.push_back(g + part.begin);
                made_.push_back(std::make_unique<collective_type>(*group_, native{}, i, part.size(), data));
            } else {
                auto const s = layout_.reduction(i, elements, sizeof(T));
                made_.push_back(std::make_unique<collective_type>(*group_, s, i,
                                                                  layout_.cut_of(i, s, elements, sizeof(T)),
                                                                  in_place(gradients, part.begin), staging));
            }
        }
    }

    void enqueue(int, std::size_t reduction, std::span<stream* const> streams) {
        if (reduction < made_.size()) made_[reduction]->enqueue(streams);
    }
    void enqueue_sum(std::size_t sum, std::span<stream* const> streams) {
        if (sum < sums_.size()) sums_[sum]->enqueue(streams);
    }

    /// Every rank has filled in its own words, and all others are zero: their sum is all of them, bit for bit.
    void enqueue_scores(std::span<std::uint64_t* const> words, std::size_t count, std::span<stream* const> streams) {
        if (group_->processes() == 1 || count == 0) return;
        scores_.resize(words.size());
        for (std::size_t i = 0; i < words.size(); ++i)
            scores_[i] = {nccl_call::kind::all_reduce, static_cast<int>(i), 0, ncclUint64, words[i], count,
                          streams[i]->handle()};
        group_->run(scores_, {"all_reduce", "scores", 0, count * sizeof(std::uint64_t)}, first_scores_);
        first_scores_ = false;
    }

    /// Per step; without the scores, which are control, not gradients.
    traffic moved(int local) const noexcept {
        traffic sum;
        for (auto const* all : {&made_, &sums_})
            for (auto const& m : *all) sum += m->moved(local);
        return sum;
    }

    void check() { group_->check(); }
    void abandon() noexcept { group_->abandon(); }

private:
    using collective_type = nccl_collective<Device, T>;

    static constexpr staged_tree tree_of(parallel_layout const& l, std::size_t elements,
                                         std::size_t element_bytes) noexcept {
        return {l.replicas, l.shards(), elements, element_bytes};
    }
    /// One place for all reductions: they come one after the other.
    static constexpr std::size_t staging_of(parallel_layout const& l, int rank, std::size_t elements,
                                            std::size_t element_bytes) {
        std::size_t most = 0;
        for (std::size_t i = 0; i < l.reductions(); ++i) {
            if (l.strategy_of(i).is<native>()) continue;
            auto const s = l.reduction(i, elements, element_bytes);
            most = std::max(most, staging_bytes(s, l.cut_of(i, s, elements, element_bytes), rank));
        }
        return most;
    }

    parallel_layout layout_;
    std::unique_ptr<nccl_group<Device>> group_;
    std::vector<typename Device::memory> staging_;
    std::vector<std::unique_ptr<collective_type>> made_, sums_;
    std::vector<nccl_call> scores_;
    bool first_scores_ = true;
};

/// `transport<nccl>`: accelerators reach one another through NCCL, in one process or several. Strategies run as they do
/// elsewhere, as messages, with the same bits; `reduce_by<native>` leaves the reduction to NCCL.
struct nccl : transport_traits {
    static constexpr bool has_native = true;
    template<class Device, class T>
    using streams = nccl_transport<Device, T>;
};

} // namespace trireme
