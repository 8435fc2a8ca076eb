// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/group/communicator.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme {

/// The ranks of a communicator, which are the whole group or a part of it, and the calls that this rank has made there.
struct mpi_members {
    int lane = 0;                    ///< of the part, as of step_counting; 0: the whole group
    std::vector<int> ranks = {};     ///< of the group, by their place in the part; none in the whole group
    std::uint32_t calls = 0;         ///< collectives entered
    collective_subject subject = {}; ///< of the next one

    int known(int place) const noexcept { return lane == 0 ? place : ranks[static_cast<std::size_t>(place)]; }
    bool has(int rank) const noexcept {
        return lane == 0 || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
    }
};

} // namespace trireme
