// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/collective/schedule.hpp>
#include <trireme/schedule/cost.hpp>
#include <trireme/schedule/play.hpp>

namespace trireme {

/// The cost of moving data between two ranks, in seconds: `alpha` until a step that waits has seen all of its
/// sources, `beta` per byte copied, `gamma` per byte that is added, on top; and `overhead` for each message that a rank
/// deals with itself, for machines where a rank that reads from many is busy with each: the o of LogGP. Sources:
/// Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005; Alexandrov,
/// Ionescu, Schauser, Scheiman, "LogGP", 1995.
struct link_cost {
    double alpha = 0;    ///< seconds until a step that waits has seen all of its sources
    double beta = 0;     ///< seconds per byte copied
    double gamma = 0;    ///< seconds per byte added, on top
    double overhead = 0; ///< seconds per message that a rank deals with itself

    constexpr bool free() const noexcept { return alpha <= 0 && beta <= 0 && gamma <= 0 && overhead <= 0; }
};

/// A machine as the cost model sees it. links[i] joins ranks whose first common level is i: links[0] within an
/// innermost group (or everywhere, if there are no groups), links[1] between those of one next group, ... A
/// level that is not described costs what the one below it does.
struct machine {
    link_cost links[levels::most + 1] = {}; ///< costs by the first common level of two ranks
    levels groups = {};                     ///< groups of ranks within groups; none: all ranks are alike
    int at_once = 0;                        ///< ranks that can work at the same time, the processors; 0: all of them

    /// The link that joins two ranks.
    constexpr link_cost const& link(int a, int b) const noexcept {
        int level = groups.shared_by(a, b);
        while (level > 0 && links[level].free()) --level;
        return links[level];
    }
};

/// Threads that have a core each and share a cache, as on most machines: for programs that nobody has calibrated
/// (examples/calibrate.cpp measures a machine and prints a description to use instead).
struct typical_threads {
    static constexpr machine description{{{1.5e-7, 5.0e-11, 1.0e-11, 3.0e-8}}};
};

/// Seconds that a proved schedule takes on `m`, for buffers that are cut like `cut`. A rank does one thing after the
/// other and each step when its sources are ready. A byte that a reduction writes to a destination costs half of one
/// that is copied, because it is in a register already. Where more ranks want to work than `at_once`, it takes at least
/// as long as their work, without the waiting, shared out evenly. Not in the model: caches that are too small, and
/// links that several pairs of ranks share.
///
/// `place(rank)`: which rank of the machine a rank of the schedule is, where that is not the same.
/// Cost: steps times ranks times sources operations.
template<collective_schedule S, class Place>
constexpr double seconds_of(S const& s, buffer_cut const& cut, machine const& m, Place const& place) {
    auto const link = [&](int a, int b) -> link_cost const& { return m.link(place(a), place(b)); };
    auto const latency_of = [&](collective_step const& step, int rank) {
        double t = 0;
        for (int k = 0; k < step.sources.count; ++k) {
            auto const alpha = link(rank, step.sources.at(k, s.ranks)).alpha;
            t = alpha > t ? alpha : t;
        }
        return t;
    };
    auto const work_of = [&](collective_step const& step, int rank) {
        auto const bytes = reads(step.kind) ? static_cast<double>(detail::bytes_of(s, step, cut)) : 0.0;
        double t = 0;
        for (int k = 0; k < step.sources.count; ++k) {
            auto const& l = link(rank, step.sources.at(k, s.ranks));
            t += l.overhead + bytes * (l.beta + (step.kind == step_kind::reduce ? l.gamma : 0));
        }
        for (int k = 0; k < step.destinations.count; ++k) {
            auto const& l = link(rank, step.destinations.at(k, s.ranks));
            t += l.overhead + bytes * l.beta / 2;
        }
        return t;
    };

    double last = 0, work = 0;
    detail::play<double>(s, [&](int rank, int, collective_step const& step, double at) {
        if (step.kind != step_kind::idle) {
            auto const t = work_of(step, rank);
            work += t;
            at += latency_of(step, rank) + t;
        }
        last = at > last ? at : last;
        return at;
    });
    auto const shared = m.at_once > 0 ? work / m.at_once : 0.0;
    return shared > last ? shared : last;
}
template<collective_schedule S>
constexpr double seconds_of(S const& s, buffer_cut const& cut, machine const& m) {
    return seconds_of(s, cut, m, [](int rank) { return rank; });
}

} // namespace trireme
