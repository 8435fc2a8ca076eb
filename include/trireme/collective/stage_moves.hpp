// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/channel.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/schedule/pipeline/program.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace trireme {

/// The places from which a program's messages leave, by way and micro-batch: where a receiver finds them.
class sent_places {
public:
    explicit sent_places(step_program const& p)
        : micro_batches_(static_cast<std::size_t>(p.shape.micro_batches)),
          of_(2 * static_cast<std::size_t>(p.stage_count()) * micro_batches_) {
        for (auto const& t : p.all)
            for (int k = 0; k < t.transfers; ++k)
                if (auto const& m = t.moves[k]; m.sends) of_[m.way() * micro_batches_ + m.micro_batch] = m.place;
    }
    std::uint16_t of(stage_transfer const& m) const noexcept { return of_[m.way() * micro_batches_ + m.micro_batch]; }

private:
    std::size_t micro_batches_;
    std::vector<std::uint16_t> of_;
};

inline namespace TRIREME_ISA {

/// The moves of step programs, as one rank carries them out over channels: what it sends is announced, and what it gets
/// it takes from the memory of the rank beside it; between machines sends are begun, and receives awaited. Ranks of a
/// replica are neighbours: rank = replica * roles + role. Each boundary has a link for values and one for gradients.
template<channelled_communicator C>
class stage_moves {
public:
    /// Every rank of the group calls it; it takes one arena. `p`: this rank's; the others' have as many stages.
    stage_moves(C& comm, step_program const& p, int replicas)
        : rank_(comm.rank()), role_(comm.rank() % p.shape.roles),
          channels_(comm, links(p, replicas), std::size_t{p.frames[role_]} + p.slots[role_]) {
        std::size_t of_replica = 0;
        for (int b = 0; b + 1 < p.stage_count(); ++b) {
            link_.push_back(of_replica);
            if (p.role_of(b) != p.role_of(b + 1)) of_replica += 2;
        }
        for (auto& link : link_) link += of_replica * static_cast<std::size_t>(comm.rank() / p.shape.roles);
        left_[0].resize(p.frames[role_]);
        left_[1].resize(p.slots[role_]);
    }

    /// Memory of a rank for these channels: over so many boundaries of each replica.
    static constexpr bytes_t counter_bytes(int replicas, int crossings) noexcept {
        return rank_channels<C>::counter_bytes(static_cast<std::size_t>(replicas * 2 * crossings));
    }

    /// Carries out a task that moves. `here(transfer)` is the memory of this rank that a transfer leaves or comes to;
    /// `there(transfer, rank, place)` is where a rank has what it sends from that place. What goes from a stage of this
    /// rank to another has no channel, and is not counted: it was there before.
    template<class Here, class There>
    void run(sent_places const& places, step_task const& t, operation const& what, Here&& here, There&& there) {
        for (int k = 0; k < t.transfers; ++k)
            if (auto const& m = t.moves[k]; m.sends && !is_own(m)) {
                std::span<std::byte> const from = here(m);
                left_[m.gradient][m.place] = {true, channels_.send(link(m), from.data(), from.size()), link(m)};
            }
        for (int k = 0; k < t.transfers; ++k) {
            auto const& m = t.moves[k];
            if (m.sends) continue;
            if (!m.gradient) wait_until_free(false, m.place, what);
            std::span<std::byte> const to = here(m);
            auto const take = [&](std::byte const* from) -> bytes_t {
                if (from != to.data() && !to.empty()) std::memcpy(to.data(), from, to.size());
                return to.size();
            };
            auto const find = [&](int sender) -> std::byte const* { return there(m, sender, places.of(m)); };
            if (is_own(m))
                take(find(rank_));
            else
                channels_.receive(link(m), what, to, find, take);
        }
    }

    /// Waits until what has been sent from a frame, or from an outgoing slot for gradients, has been taken.
    void wait_until_free(bool slot, std::size_t place, operation const& what) {
        if (auto const& l = left_[slot][place]; l.sent) channels_.wait_taken(l.link, l.number, what);
    }

private:
    struct message {
        bool sent = false; ///< whether there was one; its number, which wraps around, may be any
        std::uint32_t number = 0;
        std::size_t link = 0;
    };

    static std::vector<channel_link> links(step_program const& p, int replicas) {
        std::vector<channel_link> all;
        for (int first = 0; first < replicas * p.shape.roles; first += p.shape.roles)
            for (int b = 0; b + 1 < p.stage_count(); ++b) {
                int const lower = first + p.role_of(b), upper = first + p.role_of(b + 1);
                if (lower == upper) continue;
                all.push_back({lower, upper});
                all.push_back({upper, lower});
            }
        return all;
    }
    std::size_t link(stage_transfer const& m) const noexcept { return link_[m.boundary] + (m.gradient ? 1 : 0); }
    bool is_own(stage_transfer const& m) const noexcept { return m.role == role_; }

    int rank_, role_;
    std::vector<std::size_t> link_; ///< the first of each boundary, of this replica
    rank_channels<C> channels_;
    std::vector<message> left_[2]; ///< the last message from each frame, and from each slot
};

} // namespace TRIREME_ISA
} // namespace trireme
