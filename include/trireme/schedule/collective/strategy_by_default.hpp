// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/best_of.hpp>
#include <trireme/schedule/collective/binomial_tree.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/dissemination.hpp>
#include <trireme/schedule/collective/recursive_halving_doubling.hpp>
#include <trireme/schedule/collective/ring.hpp>
#include <trireme/schedule/collective/schedule.hpp>

namespace trireme {
namespace detail {

// Each of these strategies is the cheapest somewhere, for each costs time to compile. Reduce-scatters, gathers and
// scatters have one, because it alone lets ranks do without scratch memory: what a call needs should not depend on the
// number of ranks.
template<collective Goal>
struct by_default {
    using type = direct;
};
template<>
struct by_default<collective::all_reduce> {
    using type = best_of<direct, recursive_halving_doubling>;
};
template<>
struct by_default<collective::all_gather> {
    using type = best_of<direct, ring, recursive_halving_doubling>;
};
template<>
struct by_default<collective::broadcast> {
    using type = best_of<direct, binomial_tree>;
};
template<>
struct by_default<collective::reduce> {
    using type = best_of<direct, binomial_tree>;
};
template<>
struct by_default<collective::barrier> {
    using type = best_of<direct, dissemination>;
};

} // namespace detail

/// The strategy of a call that names none: for most collectives the cheapest of a few by the number of ranks and the
/// size of the buffer, which all ranks share, on a typical machine. `all_reduce<ring>(...)` names another one.
template<collective Goal>
using strategy_by_default = typename detail::by_default<Goal>::type;

} // namespace trireme
