// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/ring.hpp>
#include <trireme/schedule/collective/schedule.hpp>

namespace trireme {

/// A transport's own all-reduce: NCCL's, or MPI's. The library chooses the algorithm by itself, and the order of
/// additions with it: the bits are the same in every run on the same machine at most, and not those of any of our
/// strategies.
///
/// It does not tell what it moves, either. Plans and counters take it for a ring, which moves the least that ranks can
/// without help from a switch.
struct native {
    static constexpr char const* name = "native";
    static constexpr bool of_a_transport = true;
    static constexpr schedule all_reduce(int ranks) noexcept {
        auto s = ring::all_reduce(ranks);
        s.name = name;
        s.of_a_transport = true;
        return s;
    }
};

} // namespace trireme
