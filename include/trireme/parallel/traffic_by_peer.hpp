// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/cost.hpp>
#include <trireme/schedule/verify.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme::detail {

/// The traffic of one rank of a layout with the others: what it reads from them, and what it writes to them itself. All
/// of it goes along one axis of the layout's mesh or the other: to replicas with the same stages, or to roles of the
/// same replica. `apart`: it is kept for each of them, too.
class traffic_by_peer {
public:
    constexpr traffic_by_peer(parallel_layout const& l, int rank, bool apart)
        : layout_(l), rank_(rank), apart_(apart), with_(apart ? static_cast<std::size_t>(l.devices()) : 1) {}

    constexpr traffic total() const { return total_; }
    constexpr traffic with(int peer) { return with_[static_cast<std::size_t>(peer)]; }
    /// The traffic with the ranks whose coordinate along an axis of the mesh is another one.
    constexpr traffic along(int axis) {
        auto const mesh = layout_.mesh();
        traffic sum;
        for (int peer = 0; peer < layout_.devices(); ++peer)
            if (mesh.at(peer, axis) != mesh.at(rank_, axis)) sum += with(peer);
        return sum;
    }

    /// Adds what this rank has with each of some replicas, or of some roles of its own.
    constexpr void add_replicas(rank_list const& replicas, traffic const& each) {
        add(replicas, layout_.replicas, each, layout_.role_of(rank_), layout_.stages);
    }
    constexpr void add_roles(rank_list const& roles, traffic const& each) {
        add(roles, layout_.stages, each, rank_ - layout_.role_of(rank_), 1);
    }
    /// Likewise of a sum of numbers over all of them, which each rank takes from each.
    constexpr void add_sum_over_replicas(std::size_t elements, std::size_t element_bytes) {
        auto const s = direct::all_reduce(layout_.replicas);
        for_messages(s, layout_.replica_of(rank_), {elements, element_bytes, s.chunks},
                     [&](rank_list const& replicas, bytes_t bytes) { add_replicas(replicas, traffic{1, bytes}); });
    }
    constexpr void add_sum_over_roles(std::size_t elements, std::size_t element_bytes) {
        auto const s = direct::all_reduce(layout_.stages);
        for_messages(s, layout_.role_of(rank_), {elements, element_bytes, s.chunks},
                     [&](rank_list const& roles, bytes_t bytes) { add_roles(roles, traffic{1, bytes}); });
    }

private:
    constexpr void add(rank_list const& peers, int of, traffic const& each, int first, int stride) {
        auto const count = static_cast<std::uint64_t>(peers.count);
        total_ += {count * each.messages, count * each.bytes};
        for (int k = 0; apart_ && k < peers.count; ++k)
            with_[static_cast<std::size_t>(first + stride * peers.at(k, of))] += each;
    }

    parallel_layout const& layout_;
    int rank_;
    bool apart_;
    traffic total_ = {};
    scratch<traffic> with_; ///< by ranks if apart; else one, as nvcc refuses an array of none
};

} // namespace trireme::detail
