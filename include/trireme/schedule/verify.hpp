// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/pack.hpp>
#include <trireme/core/scratch.hpp>
#include <trireme/core/words.hpp>
#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/collective/strategy.hpp>
#include <trireme/schedule/proof/conflicts.hpp>
#include <trireme/schedule/proof/contributions.hpp>
#include <trireme/schedule/proof/in_order.hpp>
#include <trireme/schedule/proof/races.hpp>
#include <trireme/schedule/proof/table.hpp>
#include <trireme/schedule/proof/verdict.hpp>
#include <trireme/schedule/proof/well_formed.hpp>

#include <string>
#include <type_traits>
#include <utility>

namespace trireme {

/// Proves that `s` does what `goal` says, for every interleaving of its ranks.
/// - it ends: no deadlock, in the pull lowering, nor in a message lowering with zero buffering (rendezvous) and one
///   in-order queue per pair, whose sends are posted when a step completes and awaited before the chunk is overwritten;
/// - every chunk ends as the table of `collective` says: each contribution exactly once, and nothing else; in an
///   all-reduce added in one order, so with the same bits on all ranks;
/// - no chunk is read while or after it is overwritten, none by two ranks written at once, and none is touched before
///   its owner has entered or after it has left;
/// - inputs may lie apart from the outputs: whether a chunk has been written by its owner says where it is read.
///
/// The first fault found names rank, step and chunk; of a deadlock, the earliest stuck step. Usable in constant
/// expressions within all compilers' default limits up to 16 ranks; above, call it at construction.
/// Cost: n^2 times (steps + chunks) operations, n times (chunks + steps) words.
template<collective_schedule S>
constexpr verdict verify(collective goal, S const& s) {
    if (s.ranks < 1 || s.chunks < 1 || s.steps < 0) return {schedule_fault::out_of_range, 0, 0, 0};
    namespace proof = detail::proof;
    if (proof::belongs_to_ranks(goal) && s.chunks % s.ranks != 0) return {schedule_fault::out_of_range, 0, 0, 0};
    detail::scratch<collective_step> cells(proof::count(s.ranks, s.steps));
    detail::scratch<int> owners(proof::count(1, s.chunks)), order(proof::count(s.ranks, s.steps));
    proof::table::fill(goal, s, cells.data(), owners.data());
    proof::table const t(goal, s, cells.data(), owners.data());
    auto v = proof::well_formed(t);
    if (v.ok()) v = proof::contributions(t, order.data());
    if (v.ok()) v = proof::in_order(t);
    if (!v.ok()) return v;
    int const total = proof::conflicts(t, order.data(), nullptr);
    detail::scratch<proof::conflict> found(proof::count(1, total));
    proof::conflicts(t, order.data(), found.data());
    return proof::races(t, order.data(), found.data(), total, 0, s.ranks);
}

/// Verifies a schedule that is to run on `ranks` ranks: a strategy may have made it for another number.
template<collective_schedule S>
constexpr verdict verify(collective goal, S const& s, int ranks) {
    if (s.ranks != ranks) return {schedule_fault::out_of_range, s.ranks, 0, 0};
    return verify(goal, s);
}

constexpr char const* describe(schedule_fault fault) noexcept {
    switch (fault) {
    case schedule_fault::none:
        return "is proved";
    case schedule_fault::out_of_range:
        return "names a rank or chunk that does not exist, reads its own buffer, or is made for another number of "
               "ranks";
    case schedule_fault::deadlock:
        return "deadlocks: the source can never complete the step that is waited for";
    case schedule_fault::added_twice:
        return "adds a contribution twice";
    case schedule_fault::missing:
        return "ends without some rank's contribution";
    case schedule_fault::ranks_differ:
        return "ends with different orders of addition on different ranks";
    case schedule_fault::overwritten:
        return "lets a chunk be overwritten while it is read: a wait is missing";
    case schedule_fault::out_of_order:
        return "reads from one peer in an order that no message queue could keep";
    case schedule_fault::too_early:
        return "reads a chunk before its source is certain to have it";
    case schedule_fault::misplaced:
        return "ends with what belongs to another rank or chunk";
    case schedule_fault::reused:
        return "uses a chunk again that was written to another rank: it must be final, or written by its owner before";
    case schedule_fault::unaware:
        return "lets a rank leave before it knows that all have entered";
    case schedule_fault::unheard:
        return "writes a chunk to a rank that never waits for it";
    case schedule_fault::elsewhere:
        return "has a source_chunk, and is no copy of a single chunk in an all-to-all";
    }
    return "";
}

/// The fault of a verdict in words, and its place: "deadlocks: ... (rank 1, step 2, chunk 0)".
TRIREME_COLD inline std::string describe(verdict const& v) {
    return std::string(describe(v.fault)) + " (rank " + std::to_string(v.rank) + ", step " + std::to_string(v.step) +
           ", chunk " + std::to_string(v.chunk) + ')';
}

/// The compile-time face of the proof: one class per fault, so that the text says what is wrong and the words say
/// where.
template<schedule_fault Fault, class... Where>
struct schedule_rule;

template<class... Where>
struct schedule_rule<schedule_fault::out_of_range, Where...> {
    static_assert(rule_holds<Where...>, "TRI0030: this reduction schedule names a rank or chunk that does not exist, "
                                        "reads its own buffer, or is made for another number of ranks: correct the "
                                        "step named below");
};
template<class... Where>
struct schedule_rule<schedule_fault::deadlock, Where...> {
    static_assert(rule_holds<Where...>, "TRI0031: this reduction schedule deadlocks: the step named below waits for a "
                                        "step that its source can never complete; wait for an earlier one");
};
template<class... Where>
struct schedule_rule<schedule_fault::added_twice, Where...> {
    static_assert(rule_holds<Where...>, "TRI0032: this reduction schedule adds a contribution twice: the step named "
                                        "below reduces a chunk that is already in the sum; reduce it once");
};
template<class... Where>
struct schedule_rule<schedule_fault::missing, Where...> {
    static_assert(rule_holds<Where...>, "TRI0033: this reduction schedule ends without every contribution on every "
                                        "rank: the chunk named below is incomplete; add or copy what is missing");
};
template<class... Where>
struct schedule_rule<schedule_fault::ranks_differ, Where...> {
    static_assert(rule_holds<Where...>,
                  "TRI0034: this reduction schedule adds one chunk in different orders on "
                  "different ranks, so that their bits differ: reduce it once and copy the result");
};
template<class... Where>
struct schedule_rule<schedule_fault::overwritten, Where...> {
    static_assert(rule_holds<Where...>, "TRI0035: this reduction schedule lets a chunk be overwritten while the step "
                                        "named below reads it: let its owner wait for the reader first");
};
template<class... Where>
struct schedule_rule<schedule_fault::out_of_order, Where...> {
    static_assert(rule_holds<Where...>,
                  "TRI0036: this reduction schedule reads from one peer in an order that no "
                  "message queue could keep: let `after`, the steps that a source must have completed, "
                  "never fall from one step of a rank to the next that reads that source");
};
template<class... Where>
struct schedule_rule<schedule_fault::too_early, Where...> {
    static_assert(rule_holds<Where...>, "TRI0047: this schedule reads a chunk too early: let the step named below wait "
                                        "until its source is certain to have it");
};
template<class... Where>
struct schedule_rule<schedule_fault::misplaced, Where...> {
    static_assert(rule_holds<Where...>, "TRI0048: this schedule leaves a rank with what belongs to another rank or "
                                        "chunk: correct what goes into the chunk named below");
};
template<class... Where>
struct schedule_rule<schedule_fault::reused, Where...> {
    static_assert(rule_holds<Where...>, "TRI0049: this schedule uses a chunk again that was written to another rank: "
                                        "write only what is final, or let its owner write it before");
};
template<class... Where>
struct schedule_rule<schedule_fault::unaware, Where...> {
    static_assert(rule_holds<Where...>,
                  "TRI0050: this barrier lets the rank named below leave before it knows that all "
                  "have entered: let it wait for the missing ones");
};
template<class... Where>
struct schedule_rule<schedule_fault::unheard, Where...> {
    static_assert(rule_holds<Where...>, "TRI0051: this schedule writes a chunk to a rank that never waits for it: let "
                                        "that rank wait for the step named below");
};
template<class... Where>
struct schedule_rule<schedule_fault::elsewhere, Where...> {
    static_assert(rule_holds<Where...>, "TRI0081: this schedule reads another chunk than it writes, a `source_chunk`, "
                                        "which only an all-to-all may, one chunk in a step: leave it out");
};

template<class... Where>
struct strategy_makes_rule {
    static_assert(
        rule_holds<Where...>,
        "TRI0052: this strategy does not make this collective: choose one that the collective's documentation "
        "names, or give your own a static member function of the collective's name, which takes the number of ranks, "
        "and the root if there is one, and returns a schedule");
};

/// A word of this message.
template<collective>
struct asked_for;

template<class... Where>
struct root_rule {
    static_assert(rule_holds<Where...>, "TRI0155: this strategy forgets the root that it is asked for: give the "
                                        "schedule's `root` what the collective's function got");
};

namespace detail {

/// The proof in constant expressions of bounded size: one for the table, one for what ends where, and some for races.
template<class Strategy, collective Goal, int Ranks, int Root = 0>
struct proof_of {
    static constexpr schedule made = schedule_of<Strategy, Goal>(Ranks, Root);
    static constexpr bool fits = made.ranks == Ranks && Ranks >= 1 && made.chunks >= 1 && made.steps >= 0 &&
                                 (!proof::belongs_to_ranks(Goal) || made.chunks % Ranks == 0);

    struct room {
        collective_step cells[fits ? proof::count(Ranks, made.steps) : 1] = {};
        int owners[fits ? proof::count(1, made.chunks) : 1] = {};
    };
    static constexpr room filled = [] {
        room r;
        if constexpr (fits) proof::table::fill(Goal, made, r.cells, r.owners);
        return r;
    }();

    static constexpr proof::table table{Goal, made, filled.cells, filled.owners};
    static constexpr verdict well_formed =
        fits ? proof::well_formed(table) : verdict{schedule_fault::out_of_range, made.ranks};

    struct outcome {
        verdict found;
        int order[fits ? proof::count(Ranks, made.steps) : 1] = {};
    };
    static constexpr outcome ordered = [] {
        outcome o{well_formed};
        if constexpr (well_formed.ok()) o.found = proof::contributions(table, o.order);
        return o;
    }();
    static constexpr verdict in_order = [] {
        if constexpr (ordered.found.ok())
            return proof::in_order(table);
        else
            return ordered.found;
    }();

    static constexpr int total = [] {
        if constexpr (in_order.ok())
            return proof::conflicts(table, ordered.order, nullptr);
        else
            return 0;
    }();
    struct conflict_list {
        proof::conflict all[total + 1] = {};
    };
    static constexpr conflict_list conflicts = [] {
        conflict_list l;
        if constexpr (total != 0) proof::conflicts(table, ordered.order, l.all);
        return l;
    }();

    /// Ranks whose conflicts are looked at in one expression: about 8000 steps' worth.
    static constexpr int at_once = made.steps > 0 ? 1 + 8000 / (Ranks * made.steps) : Ranks;
    static constexpr int slices = total == 0 ? 0 : (Ranks + at_once - 1) / at_once;
    static constexpr int first_rank(int slice) { return slice * at_once < Ranks ? slice * at_once : Ranks; }
    template<int Slice>
    static constexpr verdict races =
        proof::races(table, ordered.order, conflicts.all, total, first_rank(Slice), first_rank(Slice + 1));

    template<int... Slice>
    static constexpr verdict first_race(std::integer_sequence<int, Slice...>) {
        verdict first;
        ((first.ok() ? void(first = races<Slice>) : void()), ...);
        return first;
    }
    static constexpr verdict value = [] {
        if constexpr (in_order.ok())
            return first_race(std::make_integer_sequence<int, slices>{});
        else
            return in_order;
    }();
};

template<class Strategy, collective Goal, int Ranks, int Root>
struct broken_schedule {
    static constexpr verdict v = proof_of<Strategy, Goal, Ranks, Root>::value;
    using type =
        schedule_rule<v.fault, strategy<Strategy>, devices<Ranks>, on_rank<v.rank>, at_step<v.step>, of_chunk<v.chunk>>;
};

/// `no_rule` for a strategy that makes a collective, else the rule that says so.
template<class Strategy, collective Goal>
using strategy_makes =
    std::conditional_t<makes<Strategy, Goal>, no_rule, strategy_makes_rule<strategy<Strategy>, asked_for<Goal>>>;

/// Finds the rule that a strategy's collective breaks for root 0, or else for root 1, which stands for all others.
template<class Strategy, collective Goal, int Ranks>
constexpr auto broken_rule() {
    if constexpr (!makes<Strategy, Goal>) {
        return pack<strategy_makes<Strategy, Goal>>{};
    } else if constexpr (!proof_of<Strategy, Goal, Ranks>::value.ok()) {
        return pack<typename broken_schedule<Strategy, Goal, Ranks, 0>::type>{};
    } else if constexpr (!has_root(Goal) || Ranks < 2) {
        return pack<no_rule>{};
    } else if constexpr (proof_of<Strategy, Goal, Ranks, 1>::made.root != 1) {
        return pack<root_rule<strategy<Strategy>, devices<Ranks>>>{};
    } else if constexpr (!proof_of<Strategy, Goal, Ranks, 1>::value.ok()) {
        return pack<typename broken_schedule<Strategy, Goal, Ranks, 1>::type>{};
    } else {
        return pack<no_rule>{};
    }
}

} // namespace detail

/// Ranks up to which a strategy is proved by the compiler; larger groups are proved when they are constructed.
inline constexpr int proved_by_compiler = 16;

/// The compiler's verdict on a strategy's collective, in as many constant expressions as it takes: for 16 ranks and, of
/// most strategies, for 64.
template<class Strategy, collective Goal, int Ranks>
inline constexpr verdict compiler_verdict = detail::proof_of<Strategy, Goal, Ranks>::value;

/// `no_rule` if what `Strategy` makes for `Goal` does it on `Ranks` ranks, else the rule it breaks, which does not
/// compile.
template<class Strategy, collective Goal, int Ranks>
using collective_rule = typename detail::only<decltype(detail::broken_rule<Strategy, Goal, Ranks>())>::type;

/// True if the compiler has proved a strategy's collective, for one's own programs:
/// `static_assert(proves<own_strategy, collective::broadcast, 8>)` says what is wrong, and where. A schedule with a
/// root is proved for root 0 and for root 1: all others but 0 turn it round in the same way.
template<class Strategy, collective Goal, int Ranks>
inline constexpr bool proves = sizeof(collective_rule<Strategy, Goal, Ranks>) != 0;

} // namespace trireme
