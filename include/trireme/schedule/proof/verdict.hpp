// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

namespace trireme {

/// Why a schedule is not the collective it should be.
enum class schedule_fault : std::uint8_t {
    none,
    out_of_range, ///< a source or chunk that does not exist, a rank that reads itself, another number of ranks
    deadlock,     ///< a rank waits for a step that its source can never complete
    added_twice,  ///< a contribution enters a chunk that already holds it
    missing,      ///< a chunk ends without some rank's contribution
    ranks_differ, ///< two ranks end with different orders of addition in one chunk, so with different bits
    overwritten,  ///< a chunk may be overwritten while, or before, somebody reads it
    out_of_order, ///< two reads from one peer overtake each other: a message queue could not carry them
    too_early,    ///< a chunk is read before its source is certain to have it
    misplaced,    ///< a chunk ends with what belongs to another rank or chunk
    reused,   ///< a chunk that was written to another rank is written again, or read there before its owner wrote it
    unaware,  ///< a rank may leave a barrier before another has entered it
    unheard,  ///< a chunk is written to a rank that never waits for the writing step
    elsewhere ///< a step reads another chunk than it writes, where the collective has no such step
};

struct verdict {
    schedule_fault fault = schedule_fault::none;
    int rank = 0;
    int step = 0;
    int chunk = 0;
    constexpr bool ok() const noexcept { return fault == schedule_fault::none; }
};

} // namespace trireme
