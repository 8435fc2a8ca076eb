// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/words.hpp>
#include <trireme/schedule/collective/joined_name.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/collective/strategy.hpp>

#include <cstddef>

namespace trireme {

template<class... Where>
struct hierarchical_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0046: hierarchical<Inner, Outer> needs an inner strategy with reduce_scatter and all_gather (ring, "
        "direct, recursive_halving_doubling), or with reduce and broadcast (chain, binomial_tree, "
        "double_binary_tree), and an outer one with all_reduce");
};

namespace detail {

template<class S>
concept scatters_and_gathers = requires(int n) {
    S::reduce_scatter(n);
    S::all_gather(n);
};
template<class S>
concept reduces_and_broadcasts = requires(int n) {
    S::reduce(n);
    S::broadcast(n);
};
/// A reduce that writes partial sums into other ranks' buffers cannot be followed by another one.
template<class S>
inline constexpr bool reduces_by_reading = [] {
    constexpr int n = 4;
    auto const s = S::reduce(n);
    for (int r = 0; r < n; ++r)
        for (int i = 0; i < s.steps; ++i)
            if (s.at(r, i).destinations.count != 0) return false;
    return true;
}();

template<class S>
inline constexpr int depth_of = 1;

struct hierarchical_word {
    static constexpr char const* name = "hierarchical";
};

template<class Inner, class Outer, bool Fits>
struct hierarchical_check {
    using type = no_rule;
};
template<class Inner, class Outer>
struct hierarchical_check<Inner, Outer, false> {
    using type = hierarchical_rule<strategy<Inner>, strategy<Outer>>;
};

} // namespace detail

/// One strategy within groups of ranks, another one between groups: `hierarchical<direct, ring>`; or three and more
/// levels: `hierarchical<ring, hierarchical<double_binary_tree, ring>>`.
///
/// - Phases: reduce-scatter within each group; all-reduce between the ranks that hold the same part, one of each group;
///   all-gather within each group. An inner strategy without these reduces to the group's first rank and broadcasts
///   from it. Reduce-scatter: within groups, then between them; all-gather: between groups, then within them.
///   Broadcast: between the groups' first ranks, then within; barrier: within, between the first ranks, within.
/// - Groups: those given (the levels of a machine), else as even as the divisors of n allow; where a level has one
///   rank, its phases have no steps; an all-reduce in one group is the inner strategy's. With a root they are counted
///   from it, and are the machine's only if it is a multiple of the innermost size.
/// - Cost: the sum of the phases; the outer phase moves 1/m of the buffer per rank for groups of m.
/// - Wins: where links within a group are faster than links between them. Loses: where all are alike.
/// - Deterministic, if its parts are: all ranks hold the same bits.
/// - Source: the three-phase form is that of Horovod and of NVIDIA's "2D" all-reduce; Jia et al., 2018.
template<class Inner, class Outer>
struct hierarchical {
    static constexpr char const* name = detail::joined_name<detail::hierarchical_word, Inner, Outer>.letters;
    static constexpr bool scatters = detail::scatters_and_gathers<Inner>;
    using rule = typename detail::hierarchical_check<Inner, Outer,
                                                     (scatters || detail::reduces_and_broadcasts<Inner>) &&
                                                         reduction_strategy<Outer> && !choosing_strategy<Outer>>::type;
    static constexpr rule checked{};
    static constexpr int depth = 1 + detail::depth_of<Outer>;

    static constexpr schedule all_reduce(int ranks, levels const& given = {}) noexcept {
        phases const p(levels::of(ranks, given, depth));
        if constexpr (requires { Inner::all_reduce(ranks); })
            if (p.k == 1) { // one group: nothing is gained by taking it apart
                auto s = Inner::all_reduce(ranks);
                s.name = name;
                return s;
            }
        auto const outer = p.template outer<collective::all_reduce>();
        return made(p, p.first().chunks * outer.chunks, p.first().steps + outer.steps + p.last().steps,
                    &all_reduce_step);
    }

    static constexpr schedule reduce_scatter(int ranks, levels const& given = {}) noexcept
        requires scatters && detail::scatters_and_gathers<Outer>
    {
        phases const p(levels::of(ranks, given, depth));
        auto const inner = Inner::reduce_scatter(p.m), outer = p.template outer<collective::reduce_scatter>();
        auto s = made(p, inner.chunks * outer.chunks, inner.steps + outer.steps, &reduce_scatter_step);
        s.reversed = true;
        return s;
    }
    static constexpr schedule all_gather(int ranks, levels const& given = {}) noexcept
        requires scatters && detail::scatters_and_gathers<Outer>
    {
        phases const p(levels::of(ranks, given, depth));
        auto const inner = Inner::all_gather(p.m), outer = p.template outer<collective::all_gather>();
        auto s = made(p, inner.chunks * outer.chunks, inner.steps + outer.steps, &all_gather_step);
        s.reversed = true;
        return s;
    }

    static constexpr schedule broadcast(int ranks, int root = 0, levels const& given = {}) noexcept
        requires requires { Inner::broadcast(ranks), Outer::broadcast(ranks); }
    {
        phases const p(levels::of(ranks, given, depth));
        auto const inner = Inner::broadcast(p.m), outer = p.template outer<collective::broadcast>();
        return made(p, inner.chunks * outer.chunks, inner.steps + outer.steps, &broadcast_step, root);
    }
    static constexpr schedule reduce(int ranks, int root = 0, levels const& given = {}) noexcept
        requires requires { Inner::reduce(ranks), Outer::reduce(ranks); } && detail::reduces_by_reading<Inner>
    {
        phases const p(levels::of(ranks, given, depth));
        auto const inner = Inner::reduce(p.m), outer = p.template outer<collective::reduce>();
        return made(p, inner.chunks * outer.chunks, inner.steps + outer.steps, &reduce_step, root);
    }
    static constexpr schedule barrier(int ranks, levels const& given = {}) noexcept
        requires requires { Inner::barrier(ranks), Outer::barrier(ranks); }
    {
        phases const p(levels::of(ranks, given, depth));
        return made(p, 1, 2 * Inner::barrier(p.m).steps + p.template outer<collective::barrier>().steps, &barrier_step);
    }

private:
    /// The schedules of the phases for groups of m ranks, k of them.
    struct phases {
        levels all;
        int m;
        int k;
        constexpr explicit phases(levels const& l) noexcept : all(l), m(l.sizes[0]), k(l.ranks() / l.sizes[0]) {}

        constexpr schedule first() const noexcept {
            if constexpr (scatters)
                return Inner::reduce_scatter(m);
            else
                return Inner::reduce(m);
        }
        constexpr schedule last() const noexcept {
            if constexpr (scatters)
                return Inner::all_gather(m);
            else
                return Inner::broadcast(m);
        }
        template<collective Goal>
        constexpr schedule outer() const noexcept {
            return schedule_of<Outer, Goal>(k, 0, all.outer());
        }

        /// A step of an inner schedule, of group g, begun when `done` steps were complete. Each of its chunks is `fine`
        /// of ours.
        constexpr collective_step within(collective_step step, int g, int done, int fine) const noexcept {
            if (step.kind == step_kind::idle) return step;
            step.chunk = {step.chunk.first * fine, step.chunk.count * fine};
            step.after += done;
            step.sources = inside(step.sources, g);
            step.destinations = inside(step.destinations, g);
            return step;
        }
        /// A step of an outer schedule between the i-th ranks of all groups, on the part of the buffer that begins with
        /// chunk `begin`.
        constexpr collective_step between(collective_step step, int i, int done, int begin, int fine) const noexcept {
            if (step.kind == step_kind::idle) return step;
            step.chunk = {begin + step.chunk.first * fine, step.chunk.count * fine};
            step.after += done;
            step.sources = across(step.sources, i);
            step.destinations = across(step.destinations, i);
            return step;
        }

    private:
        constexpr rank_list inside(rank_list list, int g) const noexcept {
            if (list.modulus == 0) list.modulus = m;
            list.base += g * m;
            return list;
        }
        constexpr rank_list across(rank_list list, int i) const noexcept {
            if (list.modulus == 0) list.modulus = k;
            list.base = i + m * list.base;
            list.scale *= m;
            return list;
        }
    };

    static constexpr schedule made(phases const& p, int chunks, int steps,
                                   collective_step (*step)(levels const&, int, int), int root = 0) noexcept {
        schedule s{name, p.all.ranks(), chunks, steps};
        s.root = root;
        s.groups = p.all;
        s.step_in_groups = step;
        return s;
    }

    /// A step of `rank` between the groups. If the phases scatter, the i-th rank of a group holds a part of the buffer
    /// there: `share` of our chunks make one outer chunk, and the part begins after those of i ranks. Else the first
    /// rank of each group holds the whole buffer.
    static constexpr collective_step outer_step(phases const& p, schedule const& inner, schedule const& outer, int rank,
                                                int s, int done) noexcept {
        int const g = rank / p.m, i = rank % p.m;
        if constexpr (scatters) {
            int const share = inner.chunks / p.m;
            return p.between(outer.at(g, s), i, done, i * share * outer.chunks, share);
        } else {
            return i == 0 ? p.between(outer.at(g, s), 0, done, 0, inner.chunks) : collective_step{};
        }
    }

    static constexpr collective_step all_reduce_step(levels const& l, int rank, int s) noexcept {
        phases const p(l);
        auto const first = p.first(), outer = p.template outer<collective::all_reduce>();
        int const g = rank / p.m, i = rank % p.m;
        if (s < first.steps) return p.within(first.at(i, s), g, 0, outer.chunks);
        int const done = first.steps + outer.steps;
        if (s < done) return outer_step(p, first, outer, rank, s - first.steps, first.steps);
        auto const last = p.last();
        return p.within(last.at(i, s - done), g, done, first.chunks * outer.chunks / last.chunks);
    }

    static constexpr collective_step reduce_scatter_step(levels const& l, int rank, int s) noexcept {
        phases const p(l);
        auto const first = Inner::reduce_scatter(p.m), outer = p.template outer<collective::reduce_scatter>();
        if (s < first.steps) return p.within(first.at(rank % p.m, s), rank / p.m, 0, outer.chunks);
        return outer_step(p, first, outer, rank, s - first.steps, first.steps);
    }

    static constexpr collective_step all_gather_step(levels const& l, int rank, int s) noexcept {
        phases const p(l);
        auto const last = Inner::all_gather(p.m), outer = p.template outer<collective::all_gather>();
        if (s < outer.steps) return outer_step(p, last, outer, rank, s, 0);
        return p.within(last.at(rank % p.m, s - outer.steps), rank / p.m, outer.steps, outer.chunks);
    }

    // Between the groups' first ranks only: broadcast, reduce, barrier.

    static constexpr collective_step leaders(phases const& p, schedule const& outer, int rank, int s, int done,
                                             int fine) noexcept {
        return rank % p.m == 0 ? p.between(outer.at(rank / p.m, s), 0, done, 0, fine) : collective_step{};
    }

    static constexpr collective_step broadcast_step(levels const& l, int rank, int s) noexcept {
        phases const p(l);
        auto const inner = Inner::broadcast(p.m), outer = p.template outer<collective::broadcast>();
        if (s < outer.steps) return leaders(p, outer, rank, s, 0, inner.chunks);
        return p.within(inner.at(rank % p.m, s - outer.steps), rank / p.m, outer.steps, outer.chunks);
    }

    static constexpr collective_step reduce_step(levels const& l, int rank, int s) noexcept {
        phases const p(l);
        auto const inner = Inner::reduce(p.m), outer = p.template outer<collective::reduce>();
        if (s < inner.steps) return p.within(inner.at(rank % p.m, s), rank / p.m, 0, outer.chunks);
        return leaders(p, outer, rank, s - inner.steps, inner.steps, inner.chunks);
    }

    static constexpr collective_step barrier_step(levels const& l, int rank, int s) noexcept {
        phases const p(l);
        auto const inner = Inner::barrier(p.m), outer = p.template outer<collective::barrier>();
        int const done = inner.steps + outer.steps;
        if (s < inner.steps) return p.within(inner.at(rank % p.m, s), rank / p.m, 0, 1);
        if (s < done) return leaders(p, outer, rank, s - inner.steps, inner.steps, 1);
        return p.within(inner.at(rank % p.m, s - done), rank / p.m, done, 1);
    }
};

template<class Inner, class Outer>
inline constexpr int detail::depth_of<hierarchical<Inner, Outer>> = hierarchical<Inner, Outer>::depth;

} // namespace trireme
