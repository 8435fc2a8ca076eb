// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/schedule/collective/schedule.hpp>

#include <type_traits>
#include <utility>

namespace trireme {

template<class Wire, class Strategy>
struct compressed;

namespace detail {

/// True for a strategy that sends gradients in numbers of another type, and makes no collective by itself.
template<class S>
inline constexpr bool is_compressed = false;
template<class Wire, class Strategy>
inline constexpr bool is_compressed<compressed<Wire, Strategy>> = true;

/// The answer of S's static member function with the collective's name; void if there is none for these arguments.
template<class S, collective Goal, class... A>
constexpr auto ask(A const&... a) {
    if constexpr (Goal == collective::all_reduce) {
        if constexpr (requires { S::all_reduce(a...); }) return S::all_reduce(a...);
    } else if constexpr (Goal == collective::reduce_scatter) {
        if constexpr (requires { S::reduce_scatter(a...); }) return S::reduce_scatter(a...);
    } else if constexpr (Goal == collective::all_gather) {
        if constexpr (requires { S::all_gather(a...); }) return S::all_gather(a...);
    } else if constexpr (Goal == collective::broadcast) {
        if constexpr (requires { S::broadcast(a...); }) return S::broadcast(a...);
    } else if constexpr (Goal == collective::reduce) {
        if constexpr (requires { S::reduce(a...); }) return S::reduce(a...);
    } else if constexpr (Goal == collective::gather) {
        if constexpr (requires { S::gather(a...); }) return S::gather(a...);
    } else if constexpr (Goal == collective::scatter) {
        if constexpr (requires { S::scatter(a...); }) return S::scatter(a...);
    } else if constexpr (Goal == collective::all_to_all) {
        if constexpr (requires { S::all_to_all(a...); }) return S::all_to_all(a...);
    } else if constexpr (Goal == collective::barrier) {
        if constexpr (requires { S::barrier(a...); }) return S::barrier(a...);
    }
}
template<class S, collective Goal, class... A>
inline constexpr bool answers = std::is_same_v<decltype(ask<S, Goal>(std::declval<A const&>()...)), schedule>;

} // namespace detail

/// True for a strategy that makes a collective: it has a static member function of that name, which takes the ranks,
/// and the root if there is one, and returns a schedule; or one of those that it chooses from has.
template<class S, collective Goal>
inline constexpr bool makes = [] {
    if constexpr (choosing_strategy<S>)
        return S::template makes_some<Goal>;
    else if constexpr (has_root(Goal))
        return detail::answers<S, Goal, int, int>;
    else
        return detail::answers<S, Goal, int>;
}();

/// The schedule that a strategy makes for a collective. `root` is for those that have one, `groups` for strategies that
/// take levels, `bytes` (of the buffer) for those that choose by it.
template<class S, collective Goal>
    requires makes<S, Goal>
constexpr schedule schedule_of(int ranks, [[maybe_unused]] int root = 0, [[maybe_unused]] levels const& groups = {},
                               [[maybe_unused]] bytes_t bytes = 0) {
    if constexpr (choosing_strategy<S>)
        return S::template make<Goal>(ranks, root, groups, bytes);
    else if constexpr (has_root(Goal) && detail::answers<S, Goal, int, int, levels>)
        return detail::ask<S, Goal>(ranks, root, groups);
    else if constexpr (has_root(Goal))
        return detail::ask<S, Goal>(ranks, root);
    else if constexpr (detail::answers<S, Goal, int, levels>)
        return detail::ask<S, Goal>(ranks, groups);
    else
        return detail::ask<S, Goal>(ranks);
}

} // namespace trireme
