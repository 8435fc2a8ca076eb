// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/on_streams/nccl.hpp>
#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/group/transport/nccl/group.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/messages.hpp>
#include <trireme/trainer/policy_arguments.hpp>
#include <trireme/trainer/stream_transport.hpp>

#include <algorithm>
#include <chrono>
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
/// A process has whole replicas: the stages of one read one another's memory, as with transport<peer>. NCCL joins the
/// ranks of a role, by a communicator for each.
///
/// Graphs that hold its work have to be gone before it is: NCCL keeps what they use until then. A process with several
/// GPUs hands its steps over without graphs: NVIDIA says that with them a launch may block for ever.
template<accelerator Device, class T>
class nccl_transport : public prepared_collectives<nccl_collective<Device, T>> {
    using base = prepared_collectives<nccl_collective<Device, T>>;
    using base::layout_, base::made_, base::sums_;
    using typename base::collective_type;

public:
    using typename base::stream;

    /// The bytes that a rank needs for the numbers that it receives.
    static constexpr bytes_t table_bytes(parallel_layout const& l, int rank, arena_extent const& arena,
                                         std::size_t element_bytes) {
        if (l.replicas == 1) return 0;
        if (l.reproducible()) {
            auto const tree = tree_of(l, arena.elements, element_bytes);
            return tree.staging(l.replica_of(rank)) + tree.table();
        }
        return staging_of(l, l.replica_of(rank), arena.elements, element_bytes);
    }

    static constexpr bytes_t sum_bytes(int ranks, int rank, std::size_t elements, std::size_t element_bytes) {
        if (ranks == 1) return 0;
        auto const s = direct::all_reduce(ranks);
        return staging_bytes(s, {elements, element_bytes, s.chunks}, rank);
    }

    nccl_transport(parallel_layout const& l, auto const& r)
        : base(l), group_(std::make_unique<group_type>(attendance_of(l, r), r.share_devices.value)) {
        shared_scores_.resize(static_cast<std::size_t>(l.stages));
        if (l.stages == 1) return;
        parts_ = group_->along(l.mesh(), {l.mesh().find("dp")});
        for (int i = 0; i < local_ranks(); ++i)
            for (int k = 0; k < local_ranks(); ++k)
                if (i != k && Device::reaches(device_of(i), device_of(k)))
                    Device::enable_peers(device_of(i), device_of(k)); // else copies go through the host
    }

    int first_rank() const noexcept { return group_->first_rank(); }
    int local_ranks() const noexcept { return group_->local_ranks(); }
    int device_of(int local) const noexcept { return group_->device_of(local); }
    bool captures() const noexcept { return local_ranks() == 1; }

    void prepare(int role, std::vector<T*> const& gradients, arena_extent const& arena,
                 std::vector<layer_sum<T>> const& sums = {}) {
        auto& made = made_.emplace_back();
        if (layout_.replicas == 1) return;
        auto& group = group_of(role);
        auto const elements = arena.elements;
        auto const in_place = [](std::vector<T*> const& numbers, std::size_t begin) {
            std::vector<stream_buffers<T>> buffers;
            for (auto* const n : numbers) buffers.push_back({n + begin, n + begin});
            return buffers;
        };
        auto const staged = [&](int local, bytes_t bytes, char const* what) {
            staging_.emplace_back(group.device_of(local), bytes, what);
            return staging_.back().data();
        };
        for (auto const& sum : sums) {
            std::vector<void*> memory;
            for (int i = 0; i < group.local_ranks(); ++i)
                memory.push_back(staged(i, sum_bytes(layout_.replicas, group.first_rank() + i, sum.count, sizeof(T)),
                                        "messages of the layers' sums"));
            auto const s = direct::all_reduce(layout_.replicas);
            sums_.push_back(std::make_unique<collective_type>(group, s, layout_.reductions() + sums_.size(),
                                                              buffer_cut{sum.count, sizeof(T), s.chunks},
                                                              in_place(sum.numbers, 0), memory));
        }
        std::vector<void*> staging, tables;
        auto const tree = tree_of(layout_, elements, sizeof(T));
        for (int i = 0; i < group.local_ranks(); ++i) {
            int const place = group.first_rank() + i;
            auto const bytes =
                layout_.reproducible() ? tree.staging(place) : staging_of(layout_, place, elements, sizeof(T));
            staging.push_back(staged(i, bytes, "messages of the collectives"));
            if (layout_.reproducible()) tables.push_back(staged(i, tree.table(), "tables of the collectives"));
        }
        if (layout_.reproducible()) {
            made.push_back(std::make_unique<collective_type>(group, tree, gradients, staging, tables));
            return;
        }
        for (std::size_t i = 0; i < layout_.reductions(); ++i) {
            auto const part = layout_.reduced_by(i, elements);
            if (layout_.strategy_of(i).template is<native>()) {
                std::vector<T*> data;
                for (auto* const g : gradients) data.push_back(g + part.begin);
                made.push_back(std::make_unique<collective_type>(group, native{}, i, part.size(), data));
            } else {
                auto const s = layout_.reduction(i, elements, sizeof(T));
                made.push_back(std::make_unique<collective_type>(group, s, i, layout_.cut_of(i, s, elements, sizeof(T)),
                                                                 in_place(gradients, part.begin), staging));
            }
        }
    }

    /// Every rank has filled in its own words, and all others are zero: their sum is all of them, bit for bit.
    void enqueue_scores(int role, std::span<std::uint64_t* const> words, std::size_t count,
                        std::span<stream* const> streams) {
        if (group_->processes() == 1 || count == 0) return;
        scores_.resize(words.size());
        for (std::size_t i = 0; i < words.size(); ++i)
            scores_[i] = {nccl_call::kind::all_reduce, static_cast<int>(i), 0, ncclUint64, words[i], count,
                          streams[i]->handle()};
        bool const shared_before = shared_scores_[static_cast<std::size_t>(role)];
        group_of(role).run(scores_, {"all_reduce", "scores", 0, count * sizeof(std::uint64_t)}, !shared_before);
        shared_scores_[static_cast<std::size_t>(role)] = true;
    }

    void check() {
        group_->check();
        for (auto& g : parts_) g->check();
    }
    void abandon() noexcept {
        for (auto& g : parts_) g->abandon();
        group_->abandon();
    }

private:
    using group_type = nccl_group<Device>;

    static nccl_runtime::attendance attendance_of(parallel_layout const& l, auto const& r) {
        auto const& p = r.processes.value;
        if (l.stages != 1 && p.count > 1 && l.replicas % p.count != 0) refuse_processes(l, p.count);
        return {p.index, p.count, l.devices(), p.id_file, std::chrono::duration<double>(r.deadline), p.share, p.with};
    }
    TRIREME_COLD [[noreturn]] static void refuse_processes(parallel_layout const& l, int count) {
        std::string would;
        for (int n = 1; n <= l.replicas; ++n)
            if (l.replicas % n == 0) would += (would.empty() ? "" : ", ") + std::to_string(n);
        throw usage_error(std::to_string(l.replicas) + (l.replicas == 1 ? " replica of " : " replicas of ") +
                          std::to_string(l.stages) + " stages over " + std::to_string(count) +
                          " processes: a replica stays within one process, whose devices read one another's memory; "
                          "start as many processes as divide the replicas (" +
                          would + "), or choose other `devices` and `stages`");
    }

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

    /// The ranks of a role.
    group_type& group_of(int role) noexcept {
        return parts_.empty() ? *group_ : *parts_[static_cast<std::size_t>(role)];
    }

    std::unique_ptr<group_type> group_;
    std::vector<std::unique_ptr<group_type>> parts_; ///< by role, where there are several
    std::vector<typename Device::memory> staging_;
    std::vector<nccl_call> scores_;
    std::vector<bool> shared_scores_; ///< by role: whether it has done so before
};

/// `transport<nccl>`: accelerators reach one another through NCCL, in one process or several. Strategies run as they do
/// elsewhere, as messages, with the same bits; `reduce_by<native>` leaves the reduction to NCCL. The stages of a
/// pipeline stay within a process, and read one another's memory.
struct nccl : transport_traits {
    static constexpr bool has_native = true, has_stages = true;
    template<class Device, class T>
    using streams = nccl_transport<Device, T>;
};

} // namespace trireme
