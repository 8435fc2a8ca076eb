// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "strategy_names.hpp"

#include <trireme/trireme.hpp>

#include <cstddef>
#include <iterator>
#include <string_view>

/// Strategies that --strategy chooses from, in the order of their names; `hierarchical` pairs the devices, `best_of`
/// takes the cheapest of the others.
constexpr trireme::strategy_choice strategies[] = {
    trireme::direct{},
    trireme::ring{},
    trireme::bidirectional_ring{},
    trireme::recursive_halving_doubling{},
    trireme::double_binary_tree{},
    trireme::chain{},
    trireme::hierarchical<trireme::direct, trireme::ring>{},
    trireme::best_of<trireme::direct, trireme::ring, trireme::recursive_halving_doubling>{}};
static_assert(std::size(strategies) == std::size(strategy_names));

inline trireme::strategy_choice strategy_of(std::string_view name) {
    trireme::strategy_choice chosen;
    for (std::size_t i = 0; i < std::size(strategies); ++i)
        if (name == strategy_names[i]) chosen = strategies[i];
    return chosen;
}
