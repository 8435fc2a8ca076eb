// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/on_streams/peer.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/local_ranks.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/trainer/policy_arguments.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trireme {

// clang-format off
// The class `streams` of a transport that joins accelerators adds the gradients of a trainer's ranks. One thread drives
// all ranks of its process and hands everything over to their streams, at construction into a graph.
//
//     static constexpr bytes_t table_bytes(parallel_layout const&, int rank, arena_extent const&,
//                                          std::size_t element_bytes);            // device memory, for the plan
//     static constexpr bytes_t sum_bytes(int ranks, int rank, std::size_t elements, std::size_t element_bytes);
//     static constexpr bytes_t relay_bytes(parallel_layout const&);
//     type(parallel_layout const&, run_options const&, std::string const& agreed); // what processes have in common
//     local_ranks here() const;
//     int device_of(int local) const;
//     bool captures() const;          // whether a step may be a graph
//     void prepare(int role, std::vector<T*> const& gradients, arena_extent const&,  // of the local ranks of a role
//                  std::vector<layer_sum<T>> const&);          // role by role, and each of its stages by itself
//     void enqueue(int role, int chunk, std::size_t reduction, std::span<stream* const>); // one stream per local rank
//     void enqueue_sum(std::size_t sum, std::span<stream* const>);
//     bool shares_scores() const;     // whether every rank gets those of all
//     void enqueue_scores(std::span<std::uint64_t* const>, std::size_t words, std::span<stream* const>);
//     void share(std::span<std::byte> numbers, std::span<stream* const>, waits for these);  // in a replica
//     void share_with_all(std::span<std::byte> numbers, std::span<stream* const>, waits for these);
//     int processes() const;
//     static constexpr bool has_messages;             // whether it joins processes, and there are these two:
//     void enqueue_send(int role, int to, void const*, bytes_t, stream&);     // if a process may have part of a
//     void enqueue_receive(int role, int from, void*, bytes_t, stream&);      // replica: to another process's rank of it
//     traffic moved(int local) const;                                              // by collectives, per step
//     void check();                   // while somebody waits: throws what has gone wrong
//     void abandon() noexcept;        // the wait is over, and lost
// clang-format on

/// Numbers that a layer adds over all ranks in the middle of a step: where they are on the local ranks.
template<class T>
struct layer_sum {
    std::vector<T*> numbers;
    std::size_t count = 0;
    bool in_step = false; ///< none is asked for on the way back, below the first parameters
};

/// Collectives of a process's ranks, in the order in which a transport prepares them: role by role, and each of its
/// stages by itself; and those that add the layers' numbers.
template<class Collective>
class prepared_collectives {
public:
    using stream = typename Collective::stream;

    detail::local_ranks const& here() const noexcept { return here_; }

    void enqueue(int role, int chunk, std::size_t reduction, std::span<stream* const> streams) {
        auto const& made = made_[prepared(role, chunk)];
        if (reduction < made.size()) made[reduction]->enqueue(streams);
    }
    void enqueue_sum(std::size_t sum, std::span<stream* const> streams) {
        if (sum < sums_.size()) sums_[sum]->enqueue(streams);
    }

    /// Per step; without the scores, which are control, not gradients.
    traffic moved(int local) const noexcept {
        traffic all;
        auto const add = [&](collective_type const& one) { all += one.moved(here_.replica_of(local)); };
        for (int chunk = 0; chunk < layout_.chunks() && !made_.empty(); ++chunk)
            for (auto const& one : made_[prepared(here_.role_of(local), chunk)]) add(*one);
        for (std::size_t i = 0; i < sums_.size(); ++i)
            if (in_step_[i]) add(*sums_[i]);
        return all;
    }

protected:
    using collective_type = Collective;

    prepared_collectives(parallel_layout const& l, detail::local_ranks const& here) : layout_(l), here_(here) {}

    parallel_layout layout_;
    detail::local_ranks here_;
    std::vector<std::vector<std::unique_ptr<collective_type>>> made_; ///< by role and stage
    std::vector<std::unique_ptr<collective_type>> sums_;
    std::vector<bool> in_step_; ///< of sums_

private:
    std::size_t prepared(int role, int chunk) const noexcept {
        return here_.place(0, role) * static_cast<std::size_t>(layout_.chunks()) + static_cast<std::size_t>(chunk);
    }
};

/// All ranks are of this process and read one another's memory.
template<accelerator Device, class T>
class peer_transport : public prepared_collectives<peer_collective<Device, T>> {
    using base = prepared_collectives<peer_collective<Device, T>>;
    using base::layout_, base::made_, base::sums_, base::in_step_;
    using typename base::collective_type;

public:
    using typename base::stream;

    static constexpr bytes_t table_bytes(parallel_layout const& l, int rank, arena_extent const& arena,
                                         std::size_t element_bytes) {
        if (l.replicas == 1) return 0;
        if (l.reproducible()) return tree_table_bytes(l.replicas, l.shards(), static_cast<std::size_t>(l.replicas));
        bytes_t sum = 0;
        for (std::size_t i = 0; i < l.reductions(); ++i) {
            auto const s = l.reduction(i, arena, element_bytes);
            sum += move_table::bytes(s, l.cut_of(i, s, arena, element_bytes), l.replica_of(rank));
        }
        return sum;
    }

    static constexpr bytes_t sum_bytes(int ranks, int rank, std::size_t elements, std::size_t element_bytes) {
        if (ranks == 1) return 0;
        auto const s = direct::all_reduce(ranks);
        return move_table::bytes(s, {elements, element_bytes, s.chunks}, rank);
    }

    static constexpr bytes_t relay_bytes(parallel_layout const&) noexcept { return 0; }

    peer_transport(parallel_layout const& l, auto const& r, std::string const& = {})
        : base(l, detail::local_ranks::of(l, 0, 1)),
          group_(std::make_unique<peer_group<Device>>(l.devices(), r.share_devices.value, r.deadline)) {
        detail::check_no_strategy_of_a_transport(l);
        if (r.processes.value.count != 1)
            throw usage_error("transport<peer> stays within one process, and " +
                              std::to_string(r.processes.value.count) + " were given: use transport<nccl>");
    }

    int device_of(int local) const noexcept { return group_->device_of(local); }
    bool captures() const noexcept { return true; }

    void prepare(int role, std::vector<T*> const& gradients, arena_extent const& arena,
                 std::vector<layer_sum<T>> const& sums = {}) {
        auto const mesh = layout_.mesh();
        auto const ranks = mesh_group{{mesh.find("dp")}}.members(mesh, role);
        replicas_.push_back(std::make_unique<peer_group<Device>>(*group_, ranks));
        auto const& group = *replicas_.back();
        auto& made = made_.emplace_back();
        if (layout_.replicas == 1) return;
        auto const add = [&](std::vector<std::unique_ptr<collective_type>>& to, schedule const& s,
                             std::vector<T*> const& numbers, range part) {
            std::vector<stream_buffers<T>> buffers;
            for (auto* const n : numbers) buffers.push_back({n + part.begin, n + part.begin});
            to.push_back(
                std::make_unique<collective_type>(group, s, buffer_cut{part.size(), sizeof(T), s.chunks}, buffers));
        };
        for (auto const& sum : sums) {
            add(sums_, direct::all_reduce(layout_.replicas), sum.numbers, {0, sum.count});
            in_step_.push_back(sum.in_step);
        }
        if (layout_.reproducible()) {
            made.push_back(std::make_unique<collective_type>(group, layout_.shards(), arena.elements, gradients));
            return;
        }
        for (std::size_t i = 0; i < layout_.reductions(); ++i)
            add(made, layout_.reduction(i, arena, sizeof(T)), gradients, layout_.reduced_by(i, arena));
    }

    // The process has all ranks.
    static constexpr bool has_messages = false;
    int processes() const noexcept { return 1; }
    bool shares_scores() const noexcept { return false; }
    void enqueue_scores(std::span<std::uint64_t* const>, std::size_t, std::span<stream* const>) const noexcept {}
    void share(std::span<std::byte>, std::span<stream* const>, auto const&) const noexcept {}
    void share_with_all(std::span<std::byte>, std::span<stream* const>, auto const&) const noexcept {}

    void check() const noexcept {} // what goes wrong on a device of this process, its events tell
    void abandon() const noexcept {}

private:
    std::unique_ptr<peer_group<Device>> group_;
    std::vector<std::unique_ptr<peer_group<Device>>> replicas_; ///< by role and stage
};

} // namespace trireme
