// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/levels.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/group/communicator.hpp>
#include <trireme/group/late.hpp>
#include <trireme/group/mesh.hpp>
#include <trireme/group/transport/call_words.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

namespace trireme {

// Slots are shown by ranks to those that see their memory, be they threads or processes: in its slot a rank counts the
// steps that it has completed, and says what it has called and for whom it waits.

/// The most arenas that a rank may allocate; a trainer needs ten at the most.
inline constexpr int max_arenas = 12;

/// The number of a rank's next arena. Throws usage_error if there are too many.
inline int next_arena(int& allocated) {
    if (allocated == max_arenas)
        throw usage_error("a rank of a group has at most " + std::to_string(max_arenas) + " arenas");
    return allocated++;
}

/// Throws usage_error if groups within groups do not have all ranks.
TRIREME_COLD inline void check_levels(int ranks, levels const& groups) {
    if (groups.count != 0 && groups.ranks() != ranks)
        throw usage_error("a group of " + std::to_string(ranks) + " ranks was given levels of " +
                          std::to_string(groups.ranks()) + ": their sizes multiplied are the ranks");
}

/// Lanes are the collectives that a rank can be in at once: one in the whole group, and one in each part of it that it
/// belongs to, such as its groups along the axes of a mesh.
inline constexpr int max_lanes = 1 + max_axes;

/// The part of a lane that a rank shows its peers. Written by its owner, read by the others after a wait.
template<class Progress>
struct step_lane {
    Progress steps;                                      ///< steps completed, over all collectives
    published_call call;                                 ///< the collective it is in
    alignas(cache_line) std::atomic<bool> moving{false}; ///< may read from its peers' buffers, and write to them
};

/// All that a rank shows its peers, likewise.
template<class Progress>
struct step_slot {
    std::array<step_lane<Progress>, max_lanes> lanes;
    std::atomic<int> waits_for{-1};              ///< the rank it sleeps for or asks after, -1 if it computes
    std::atomic<int> waits_in{0};                ///< which of that rank's lanes
    std::atomic<std::uint32_t> waits_until{0};   ///< which count of its steps there
    std::atomic<std::uint64_t> training_step{0}; ///< as the rank has said, for messages
};

/// The state that a group's ranks share. step_counting works with all such states; they differ in where memory
/// comes from, how a reason to stop reaches the others, and how one looks after peers during a long wait.
template<class S>
concept step_counting_state = requires(S& s, int rank, int lane, std::exception_ptr why, collective_call const& call,
                                       bool (*come)()) {
    { S::member } -> std::convertible_to<char const*>; // what messages call a rank: "device"
    { s.size() } -> std::convertible_to<int>;
    { s.known_as(rank) } -> std::same_as<int>; // the number that messages and errors give a rank
    s.slot(rank).lanes[0].steps.reached(std::uint32_t{});
    { s.stopped() } -> std::same_as<std::atomic<bool> const&>;
    s.stop(rank, why);         // ends all waits; the first reason is kept
    s.throw_stopped();         // what a rank throws that finds the group stopped
    s.look_around(rank, come); // before each sleep of a long wait: stops the group if a peer is gone and has not come
    s.look_around(rank);       // the same where the slot of `rank` says for how many steps it waits
    { s.is_gone(rank) } -> std::same_as<bool>;
    { s.allocate(rank, int{}, std::size_t{}) } -> std::same_as<void*>; // an arena of `rank`, the caller
    { s.at(rank, int{}) } -> std::convertible_to<void*>;               // where `rank` has it
    s.show_buffers(rank, lane, call);                                  // where the numbers of `rank`, the caller, are
    { s.buffers_of(rank, lane) } -> std::same_as<collective_call const&>;
    s.state_of(rank); // a clause about a late rank, for messages
    { s.withdrawal_limit() } -> std::convertible_to<std::chrono::duration<double>>; // of `step_counting::withdraw`
};

/// True if rank `next` has come as far as somebody waits for who shows this slot.
template<class State, class Slot>
bool has_come(State& state, Slot const& waiting, int next) noexcept {
    auto const lane = static_cast<std::size_t>(waiting.waits_in.load(std::memory_order_relaxed));
    return state.slot(next).lanes[lane].steps.reached(waiting.waits_until.load(std::memory_order_relaxed));
}

/// The rank to blame when a rank has waited too long for `source`.
template<class State>
int culprit_of(State& state, int source) noexcept {
    return end_of_waits(source, state.size(), [&](int rank) {
        auto& waiting = state.slot(rank);
        int const next = waiting.waits_for.load(std::memory_order_acquire);
        return next < 0 || next >= state.size() || has_come(state, waiting, next) ? -1 : next;
    });
}

} // namespace trireme
