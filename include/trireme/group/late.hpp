// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>

#include <algorithm>
#include <chrono>
#include <string>

namespace trireme {

// Ranks that are late: how the one is found that keeps the others waiting, what its deadline_error says, and how long a
// rank waits that gives up.

/// The rank to blame when others have waited too long for rank `first` of `ranks`: the waits lead from there to a rank
/// that waits for no other. `awaited_by(rank)` is the rank that this one waits for, -1 if for none, or for one that is
/// there by now; waits in a circle end after as many of them as there are ranks.
template<class AwaitedBy>
int end_of_waits(int first, int ranks, AwaitedBy&& awaited_by) {
    for (int hops = 0; hops < ranks; ++hops) {
        int const next = awaited_by(first);
        if (next < 0 || next >= ranks) break;
        first = next;
    }
    return first;
}

/// The remedy at the end of what is said of a rank that is late.
inline constexpr char const* if_only_slow = "; if it is only slow, raise the option `deadline`";

/// "device 2 did not finish within the deadline ...; if it is only slow, raise the option `deadline`": `did` is what
/// the device did not, `rest` follows the deadline.
TRIREME_COLD inline std::string late_text(std::string const& who, std::string const& did, std::string const& rest) {
    return who + " did not " + did + " within the deadline" + rest + if_only_slow;
}

/// "rank 2 did not arrive within the deadline of 30 s: ...; if it is only slow, raise the option `deadline`".
TRIREME_COLD inline std::string late_text(std::string const& who, std::string const& did,
                                          std::chrono::duration<double> limit, std::string const& rest) {
    return late_text(who, did, " of " + seconds_text(limit) + " s: " + rest);
}

/// The longest that a rank which gives a collective up waits for others, where what they still use is not freed: a
/// part of the deadline, which has passed when the rank gives up because another is late.
inline std::chrono::duration<double> short_withdrawal(std::chrono::duration<double> wait_limit) noexcept {
    return std::min<std::chrono::duration<double>>(wait_limit / 10, std::chrono::milliseconds(250));
}

} // namespace trireme
