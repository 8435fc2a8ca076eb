// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/remembered.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/strategy.hpp>
#include <trireme/schedule/verify.hpp>

#include <cstdint>
#include <mutex>
#include <string>

namespace trireme {

namespace detail {

/// True for a strategy that needs no proof while a program runs: each rank does the same, whatever their number is, and
/// tests have proved more of them than the compiler can.
template<class Strategy>
inline constexpr bool proved_by_tests = false;
template<>
inline constexpr bool proved_by_tests<direct> = true;

/// Proofs for root 0 apart from those for another root: a strategy turns its schedule round for all of these alike.
constexpr std::uint64_t proof_key(int ranks, levels const& groups, int root) noexcept {
    auto const key = key_of(ranks, groups);
    return key == 0 || root == 0 ? key : key | std::uint64_t{1} << 50;
}

[[noreturn]] TRIREME_COLD inline void refuse_root(collective goal, schedule const& s, int root) {
    throw usage_error(std::string(name_of(goal)) + " by " + s.name + " is asked for root " + std::to_string(root) +
                      " and makes a schedule for root " + std::to_string(s.root) +
                      ": give the schedule's `root` what the strategy is asked for");
}

} // namespace detail

/// The schedule of a strategy, proved for these ranks and groups: the first time it is asked for, by the function that
/// the compiler would use, but for `direct`, which tests have proved. Throws usage_error if the proof fails, or if the
/// strategy forgets the root. Cost of the first time: that of `verify`, with its memory, once for all threads; later: a
/// look at one word. Schedules with another root than 0 are the same one turned round, and proved once; those for more
/// than 1023 ranks each time.
/// `bytes` (of the buffer) is for strategies that choose by it.
template<class Strategy, collective Goal>
schedule proved_schedule(int ranks, int root = 0, levels const& groups = {}, [[maybe_unused]] bytes_t bytes = 0) {
    static_assert(sizeof(detail::strategy_makes<Strategy, Goal>) != 0);
    if constexpr (!makes<Strategy, Goal>) {
        return {};
    } else if constexpr (choosing_strategy<Strategy>) {
        return Strategy::template with_best<Goal>(ranks, bytes, groups, [&]<class Best>(levels const& near) {
            return proved_schedule<Best, Goal>(ranks, root, near, bytes);
        });
    } else if constexpr (detail::proved_by_tests<Strategy>) {
        return schedule_of<Strategy, Goal>(ranks, root, groups);
    } else {
        static detail::remembered<256> proved;
        static std::mutex proving; // one rank proves, the others wait for it
        auto const s = schedule_of<Strategy, Goal>(ranks, root, groups);
        if (has_root(Goal) && s.root != root) detail::refuse_root(Goal, s, root);
        auto const key = detail::proof_key(ranks, groups, root);
        if (key != 0 && proved.find(key) != 0) return s;
        std::lock_guard const lock(proving);
        if (key != 0 && proved.find(key) != 0) return s;
        if (auto const v = verify(Goal, s, ranks); !v.ok())
            throw usage_error(std::string(name_of(Goal)) + " by " + s.name + " on " + std::to_string(ranks) +
                              " ranks " + describe(v) + ": correct the strategy");
        if (key != 0) proved.keep(key, 1);
        return s;
    }
}

} // namespace trireme
