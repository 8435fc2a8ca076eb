// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/channel.hpp>
#include <trireme/collective/fixed_tree.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/memory_map.hpp>
#include <trireme/parallel/ties.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace trireme::detail::inline TRIREME_ISA {

/// Channels of a group that has them.
template<class Communicator>
struct channels_of {
    struct type {};
};
template<channelled_communicator Communicator>
struct channels_of<Communicator> {
    using type = rank_channels<Communicator>;
};

/// Tied rows of a device of the host: adds their gradients to those of the rows that they are tied to, and gives those
/// of other stages the weights that have been updated. What is on another device is read where it lies, or is sent.
template<class Model, class Communicator>
class tied_rows {
    using network = typename Model::network;
    using T = typename Model::value_type;
    static constexpr bool can_be_apart = Model::staged && Model::trains && channelled_communicator<Communicator>;

public:
    /// Memory that it takes from the group.
    static constexpr bytes_t channel_bytes(parallel_layout const& l) {
        if constexpr (can_be_apart)
            if (auto const n = pairs_apart(l); n != 0)
                return channels::counter_bytes(2 * n * static_cast<std::size_t>(l.replicas));
        return 0;
    }

    tied_rows(Communicator& world, parallel_layout const& l, arena const& weights, arena const& gradients)
        : world_(world), weights_(weights), gradients_(gradients) {
        int const rank = world.rank(), first = rank - l.role_of(rank);
        std::size_t link = 2 * pairs_apart(l) * static_cast<std::size_t>(l.replica_of(rank));
        for_each_tied<network>(l, [&](tied_pair const& p) {
            if (p.role == l.role_of(rank) || p.owner_role == l.role_of(rank))
                pairs_.push_back({{l, first + p.owner_role, p.owner_stage, *p.owner},
                                  {l, first + p.role, p.stage, *p.row},
                                  p.elements(),
                                  link,
                                  p.copies});
            link += p.is_apart() ? 2 : 0;
        });
        if constexpr (can_be_apart)
            if (pairs_apart(l) != 0) {
                channels_ = std::make_unique<channels>(world, links(l), 2 * pairs_apart(l));
                if (reads_all_in_place(world)) return;
                std::size_t most = 0;
                for (auto const& p : pairs_) most = std::max(most, p.elements);
                room_.resize(most);
            }
    }

    /// Gradients are read where they are. Their rank begins with those of the next step when copy() has come back
    /// there, for which the owner has added all of them.
    void add() {
        for (auto const& p : pairs_)
            exchange(p.row, p.owner, &place::gradients, gradients_, p.link, p.elements, add_tied, room_.data(),
                     [&](T const* from) { add_into<T>(at(gradients_, p.owner.gradients), from, p.elements); });
        ++added_;
    }
    /// Returns when the others have what they get from here.
    void copy() {
        for (auto const& p : pairs_)
            if (p.copies) {
                auto* const to = at(weights_, p.row.weights);
                exchange(p.owner, p.row, &place::weights, weights_, p.link + 1, p.elements, copy_tied, to,
                         [&](T const* from) {
                             if (from != to) std::memcpy(to, from, p.elements * sizeof(T));
                         });
            }
        ++copied_;
        if constexpr (can_be_apart)
            for (auto const& p : pairs_) {
                if (p.owner.rank == p.row.rank) continue;
                if (p.row.rank == world_.rank()) channels_->wait_taken(p.link, added_, add_tied);
                if (p.copies && p.owner.rank == world_.rank()) channels_->wait_taken(p.link + 1, copied_, copy_tied);
            }
    }

private:
    using channels = typename channels_of<Communicator>::type;
    static constexpr operation add_tied{"add_tied", "tied rows", 0}, copy_tied{"copy_tied", "tied rows", 0};

    /// A row's numbers on the rank that has it, from the beginning of its arenas.
    struct place {
        int rank;
        std::size_t weights, gradients;

        place(parallel_layout const& l, int r, int stage, layer_row const& row) : rank(r) {
            auto const numbers = numbers_of_stage<network, T>(l, stage);
            auto const lies = stage_lies<Model>(l, r, l.place_of(stage).chunk);
            weights = lies.weights + numbers.place_of(row);
            gradients = lies.gradients + numbers.place_of(row);
        }
    };
    struct pair {
        place owner, row;
        std::size_t elements;
        std::size_t link; ///< for gradients; the next one is for weights, which go the other way
        bool copies;      ///< the weights have a copy where the row is
    };

    static constexpr std::size_t pairs_apart(parallel_layout const& l) {
        std::size_t n = 0;
        for_each_tied<network>(l, [&](tied_pair const& p) { n += p.is_apart() ? 1 : 0; });
        return n;
    }
    static std::vector<channel_link> links(parallel_layout const& l) {
        std::vector<channel_link> all;
        for (int first = 0; first < l.devices(); first += l.stages)
            for_each_tied<network>(l, [&](tied_pair const& p) {
                if (!p.is_apart()) return;
                all.push_back({first + p.role, first + p.owner_role});
                all.push_back({first + p.owner_role, first + p.role});
            });
        return all;
    }

    /// Hands one row's numbers, which lie there in an arena of its rank, to take(address) on the rank of the other.
    /// Numbers that are sent arrive in `room`.
    template<class Take>
    void exchange(place const& from, place const& to, std::size_t place::* lies, arena const& a,
                  [[maybe_unused]] std::size_t link, [[maybe_unused]] std::size_t elements,
                  [[maybe_unused]] operation const& what, [[maybe_unused]] T* room, Take const& take) {
        if (from.rank == to.rank) {
            take(at(a, from.*lies));
            return;
        }
        if constexpr (can_be_apart) {
            if (from.rank == world_.rank())
                channels_->send(link, at(a, from.*lies), elements * sizeof(T));
            else
                channels_->receive(
                    link, what, std::as_writable_bytes(std::span(room, room == nullptr ? 0 : elements)),
                    [&](int rank) {
                        return reinterpret_cast<std::byte const*>(world_.template shared<T>(a, rank) + from.*lies);
                    },
                    [&](std::byte const* there) -> bytes_t {
                        take(reinterpret_cast<T const*>(there));
                        return elements * sizeof(T);
                    });
        }
    }
    T* at(arena const& a, std::size_t element) const noexcept { return static_cast<T*>(a.data) + element; }

    Communicator& world_;
    arena weights_, gradients_;
    std::vector<pair> pairs_; ///< that this device has a row of
    std::vector<T> room_;     ///< for gradients from other machines, until they are added
    std::uint32_t added_ = 0, copied_ = 0;
    std::unique_ptr<channels> channels_;
};

/// Networks without tied rows.
template<class Model, class Communicator>
    requires(Model::network::tied_gradients == 0)
class tied_rows<Model, Communicator> {
public:
    static constexpr bytes_t channel_bytes(parallel_layout const&) noexcept { return 0; }
    tied_rows(Communicator&, parallel_layout const&, arena const&, arena const&) noexcept {}
    void add() noexcept {}
    void copy() noexcept {}
};

} // namespace trireme::detail::inline TRIREME_ISA
