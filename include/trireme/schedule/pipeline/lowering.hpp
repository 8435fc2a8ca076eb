// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace trireme {

/// A transport's way of carrying out moves.
struct lowering {
    char const* name = "";
    bool rendezvous = false; ///< a move ends when its sends have been received; else they are only posted
    bool one_queue = false;  ///< all that one role sends to another comes in the order in which it was sent
};

/// Counters in shared memory: sends are posted, and values and gradients of each boundary come in orders of their own.
inline constexpr lowering by_counters{"counters", false, false};
/// Messages with a tag for each boundary and direction: posted, and each way comes in an order of its own.
inline constexpr lowering by_tagged_messages{"tagged messages", false, false};
/// Messages without tags: posted, and between two ranks in one order.
inline constexpr lowering by_messages{"messages", false, true};
/// Calls that return when both sides are there.
inline constexpr lowering by_rendezvous{"rendezvous", true, true};
/// Calls that wait for the other side on a queue of each role, all handed over in one order: that in which a play of
/// the program takes the messages, both sides of each when it is taken. What counters carry goes so, too: of all that
/// is not done yet, the first in that order waits for nobody.
inline constexpr lowering in_one_order{"one order", false, false};

} // namespace trireme
