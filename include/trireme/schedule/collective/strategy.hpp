// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/schedule/collective/schedule.hpp>

namespace trireme {

/// Whether a strategy makes a collective: it has a static member function of that name, or one of those that it
/// chooses from has.
template<class S, collective Goal>
inline constexpr bool makes = [] {
    if constexpr (choosing_strategy<S>)
        return S::template makes_some<Goal>;
    else if constexpr (Goal == collective::all_reduce)
        return requires(int ranks) { S::all_reduce(ranks); };
    else if constexpr (Goal == collective::reduce_scatter)
        return requires(int ranks) { S::reduce_scatter(ranks); };
    else if constexpr (Goal == collective::all_gather)
        return requires(int ranks) { S::all_gather(ranks); };
    else if constexpr (Goal == collective::broadcast)
        return requires(int ranks) { S::broadcast(ranks); };
    else if constexpr (Goal == collective::reduce)
        return requires(int ranks) { S::reduce(ranks); };
    else if constexpr (Goal == collective::gather)
        return requires(int ranks) { S::gather(ranks); };
    else if constexpr (Goal == collective::scatter)
        return requires(int ranks) { S::scatter(ranks); };
    else if constexpr (Goal == collective::all_to_all)
        return requires(int ranks) { S::all_to_all(ranks); };
    else
        return requires(int ranks) { S::barrier(ranks); };
}();

/// The schedule that a strategy makes for a collective. `root` is for those that have one, `groups` for strategies that
/// take levels, `bytes` (of the buffer) for those that choose by it.
template<class S, collective Goal>
requires makes<S, Goal>
constexpr schedule schedule_of(int ranks, [[maybe_unused]] int root = 0, [[maybe_unused]] levels const& groups = {},
                               [[maybe_unused]] bytes_t bytes = 0) {
    if constexpr (choosing_strategy<S>) {
        return S::template make<Goal>(ranks, root, groups, bytes);
    } else if constexpr (Goal == collective::all_reduce) {
        if constexpr (requires { S::all_reduce(ranks, groups); })
            return S::all_reduce(ranks, groups);
        else
            return S::all_reduce(ranks);
    } else if constexpr (Goal == collective::reduce_scatter) {
        if constexpr (requires { S::reduce_scatter(ranks, groups); })
            return S::reduce_scatter(ranks, groups);
        else
            return S::reduce_scatter(ranks);
    } else if constexpr (Goal == collective::all_gather) {
        if constexpr (requires { S::all_gather(ranks, groups); })
            return S::all_gather(ranks, groups);
        else
            return S::all_gather(ranks);
    } else if constexpr (Goal == collective::broadcast) {
        if constexpr (requires { S::broadcast(ranks, root, groups); })
            return S::broadcast(ranks, root, groups);
        else
            return S::broadcast(ranks, root);
    } else if constexpr (Goal == collective::reduce) {
        if constexpr (requires { S::reduce(ranks, root, groups); })
            return S::reduce(ranks, root, groups);
        else
            return S::reduce(ranks, root);
    } else if constexpr (Goal == collective::gather) {
        if constexpr (requires { S::gather(ranks, root, groups); })
            return S::gather(ranks, root, groups);
        else
            return S::gather(ranks, root);
    } else if constexpr (Goal == collective::scatter) {
        if constexpr (requires { S::scatter(ranks, root, groups); })
            return S::scatter(ranks, root, groups);
        else
            return S::scatter(ranks, root);
    } else if constexpr (Goal == collective::all_to_all) {
        if constexpr (requires { S::all_to_all(ranks, groups); })
            return S::all_to_all(ranks, groups);
        else
            return S::all_to_all(ranks);
    } else {
        if constexpr (requires { S::barrier(ranks, groups); })
            return S::barrier(ranks, groups);
        else
            return S::barrier(ranks);
    }
}

} // namespace trireme
