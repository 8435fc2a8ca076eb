// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/bidirectional_ring.hpp>
#include <trireme/schedule/collective/binomial_tree.hpp>
#include <trireme/schedule/collective/chain.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/dissemination.hpp>
#include <trireme/schedule/collective/double_binary_tree.hpp>
#include <trireme/schedule/collective/hierarchical.hpp>
#include <trireme/schedule/collective/recursive_halving_doubling.hpp>
#include <trireme/schedule/collective/ring.hpp>

// The strategies that tests go through: all of the library's, and some of groups within groups.
namespace test_strategies {

using two_levels = trireme::hierarchical<trireme::direct, trireme::ring>;
using three_levels =
    trireme::hierarchical<trireme::ring, trireme::hierarchical<trireme::double_binary_tree, trireme::direct>>;
using trees_first = trireme::hierarchical<trireme::binomial_tree, trireme::recursive_halving_doubling>;

} // namespace test_strategies

#define EVERY_STRATEGY                                                                                                 \
    trireme::ring, trireme::direct, trireme::double_binary_tree, trireme::bidirectional_ring,                          \
        trireme::recursive_halving_doubling, trireme::chain, trireme::binomial_tree, trireme::dissemination,           \
        test_strategies::two_levels, test_strategies::three_levels, test_strategies::trees_first
