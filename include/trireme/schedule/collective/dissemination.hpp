// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>

#include <bit>

namespace trireme {

/// Dissemination: in round k each rank hears from the one 2^k places before it, and with that of all whom that one has
/// heard from.
///
/// - Phases and cost: ceil(log2 n) rounds of one wait; no data moves.
/// - Wins: barriers of many ranks. Loses: few ranks, where `direct` needs one round.
/// - Source: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988.
struct dissemination {
    static constexpr char const* name = "dissemination";

    static constexpr schedule barrier(int ranks) noexcept {
        return {name, ranks, 1, static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1))), &step};
    }

private:
    static constexpr collective_step step(int n, int rank, int s) noexcept {
        return {step_kind::wait, 0, one_rank((rank + n - (1 << s)) % n), s};
    }
};

} // namespace trireme
