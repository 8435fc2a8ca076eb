// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Names that --strategy takes: those of the strategies in strategies.hpp.
inline constexpr char const* strategy_names[] = {
    "direct",       "ring",   "bidirectional_ring", "recursive_halving_doubling", "double_binary_tree", "chain",
    "hierarchical", "best_of"};
