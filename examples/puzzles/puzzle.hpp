// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Goals of the puzzles. `static_assert(solved<GOAL, ...>)` compiles when all are met; else the compiler prints the
// sentence of the first one that is not, and its words say where.

#include <trireme/core/words.hpp>
#include <trireme/schedule/pipeline/rules.hpp>
#include <trireme/schedule/pipeline/span.hpp>
#include <trireme/schedule/pipeline/verify.hpp>
#include <trireme/schedule/play.hpp>
#include <trireme/schedule/verify.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace puzzle {

using namespace trireme;

// ---- words ----

template<int>
struct of_stage;
template<int>
struct roles;
template<int>
struct micro_batches;
template<int>
struct frames;
template<int>
struct units;
template<int>
struct tasks;

// ---- sentences ----

template<class... Where>
struct only_before_rule {
    static_assert(rule_holds<Where...>, "in a ring a rank reads from the rank before it and from no other: let the "
                                        "step named here read from (rank + n - 1) % n");
};
template<class... Where>
struct rounds_rule {
    static_assert(rule_holds<Where...>, "this takes too long: a rank reads one message in a unit of time, and so many "
                                        "lie one behind the other; let several ranks read at once");
};
template<class... Where>
struct frames_rule {
    static_assert(rule_holds<Where...>, "this role keeps the values of too many micro-batches at once, each in a "
                                        "frame: let it go back earlier, so that frames are free again");
};
template<class... Where>
struct units_rule {
    static_assert(rule_holds<Where...>, "this step takes too long, because roles wait: forward, backward_input and "
                                        "backward_weights take a unit each; do those first for which others wait");
};
template<class... Where>
struct formula_rule {
    static_assert(rule_holds<Where...>, "this formula does not say how many frames the role needs: count the "
                                        "micro-batches that have gone forward and not yet back");
};
template<class... Where>
struct v_rule {
    static_assert(rule_holds<Where...>, "this is no V: stages go down from role 0 to the last role, one on each, and "
                                        "then up again, so that role 0 has the first stage and the last");
};

// ---- goals ----

/// A collective is proved: it ends, has the right result on every rank, and no race.
template<class S, collective Goal, int Ranks>
struct proved {
    static constexpr bool met = compiler_verdict<S, Goal, Ranks>.ok();
    using rule = collective_rule<S, Goal, Ranks>;
};

/// A rank reads from the rank before it only.
template<class S, int Ranks>
struct reads_the_rank_before {
    struct place {
        int rank = 0, step = 0;
        bool met = true;
    };
    static constexpr place found = [] {
        constexpr auto s = S::all_reduce(Ranks);
        for (int r = 0; r < Ranks; ++r)
            for (int i = 0; i < s.steps; ++i)
                if (auto const step = s.at(r, i);
                    reads(step.kind) && (step.sources.count != 1 || step.destinations.count != 0 ||
                                         step.sources.at(0, Ranks) != (r + Ranks - 1) % Ranks))
                    return place{r, i, false};
        return place{};
    }();
    static constexpr bool met = found.met;
    using rule = only_before_rule<on_rank<found.rank>, at_step<found.step>>;
};

/// A collective takes so long at most, if a message takes a unit, and each rank reads one at a time.
template<class S, collective Goal, int Ranks, int Most>
struct takes_at_most {
    static constexpr int longest = [] {
        int last = 0;
        constexpr auto s = schedule_of<S, Goal>(Ranks);
        detail::play<int>(s, [&](int, int, collective_step const& step, int ready) {
            int const end = ready + (reads(step.kind) ? step.sources.count + step.destinations.count : 0);
            last = std::max(last, end);
            return end;
        });
        return last;
    }();
    static constexpr bool met = longest <= Most;
    using rule = rounds_rule<devices<Ranks>, wants<at_most<std::size_t{Most}>>, gets<units<longest>>>;
};

/// A pipeline's step is proved: a training step that ends.
template<class S, int Roles, int MicroBatches>
struct trains {
    static constexpr int most = 3 * S::chunks * MicroBatches;
    /// The first role that writes what does not exist, or too much.
    static constexpr int wrong_role = [] {
        for (int r = 0; r < Roles; ++r) {
            scheduled_work out[4 * most + 8] = {};
            int const n = S::write(Roles, MicroBatches, r, out);
            bool right = n >= 0 && n <= most;
            for (int i = 0; right && i < n; ++i) right = out[i].chunk < S::chunks && out[i].micro_batch < MicroBatches;
            if (!right) return r;
        }
        return -1;
    }();
    static constexpr program_verdict found = [] {
        if constexpr (wrong_role < 0)
            return verify(static_step<S, Roles, MicroBatches>::program);
        else
            return program_verdict{program_fault::out_of_range, wrong_role};
    }();
    static constexpr bool met = found.ok();
    using rule = pipeline_schedule_rule<found.fault, roles<Roles>, micro_batches<MicroBatches>, on_role<found.role>,
                                        at_task<found.task>>;
};

/// Role r of a proved step keeps the values of `Most(roles, micro_batches, r)` micro-batches at most.
template<class S, int Roles, int MicroBatches, auto Most>
struct keeps_at_most {
    static constexpr int role = [] {
        int r = 0;
        while (r < Roles && static_step<S, Roles, MicroBatches>::program.frames[r] <= Most(Roles, MicroBatches, r)) ++r;
        return r;
    }();
    static constexpr bool met = role == Roles;
    static constexpr int kept = met ? 0 : static_step<S, Roles, MicroBatches>::program.frames[role];
    using rule = frames_rule<roles<Roles>, micro_batches<MicroBatches>, on_role<role>,
                             wants<at_most<std::size_t{Most(Roles, MicroBatches, role)}>>, gets<frames<kept>>>;
};

/// A proved step takes so long at most, if forward, backward_input and backward_weights take a unit each.
template<class S, int Roles, int MicroBatches, int Most>
struct lasts_at_most {
    static constexpr int span = static_cast<int>(step_span(static_step<S, Roles, MicroBatches>::program));
    static constexpr bool met = span <= Most;
    using rule =
        units_rule<roles<Roles>, micro_batches<MicroBatches>, wants<at_most<std::size_t{Most}>>, gets<units<span>>>;
};

/// A formula gives the frames of every role of one_f_one_b, for `Roles` roles and 1 to `Most` micro-batches.
template<auto Formula, int Roles, int Most>
struct counts_frames {
    struct place {
        int micro_batches = 0, role = 0, needed = 0;
    };
    static constexpr place found = [] {
        for (int m = 1; m <= Most; ++m) {
            step_shape const shape{Roles, m};
            auto const tasks = step_capacity(one_f_one_b{}, shape);
            detail::scratch<step_task> room(tasks);
            auto const step = build_step(one_f_one_b{}, shape, {room.data(), tasks});
            for (int r = 0; r < Roles; ++r)
                if (Formula(Roles, m, r) != step.frames[r]) return place{m, r, step.frames[r]};
        }
        return place{};
    }();
    static constexpr bool met = found.needed == 0;
    using rule =
        formula_rule<roles<Roles>, micro_batches<found.micro_batches>, on_role<found.role>, wants<frames<found.needed>>,
                     gets<frames<Formula(Roles, found.micro_batches, found.role)>>>;
};

/// The two stages of every role make a V.
template<class S, int Roles>
struct is_a_v {
    static constexpr int wrong_role = [] {
        int r = 0;
        while (r < Roles && S::stage(Roles, r, 0) == r && S::stage(Roles, r, 1) == 2 * Roles - 1 - r) ++r;
        return r;
    }();
    static constexpr bool met = wrong_role == Roles;
    using rule = v_rule<roles<Roles>, on_role<wrong_role>, gets<of_stage<S::stage(Roles, wrong_role, 0)>>,
                        gets<of_stage<S::stage(Roles, wrong_role, 1)>>>;
};

template<class... Goals>
struct first_unmet {
    using rule = no_rule;
};
template<bool Met, class Goal, class... More>
struct unless_met : first_unmet<More...> {};
template<class Goal, class... More>
struct unless_met<false, Goal, More...> {
    using rule = typename Goal::rule;
};
template<class Goal, class... More>
struct first_unmet<Goal, More...> : unless_met<Goal::met, Goal, More...> {};

template<class... Goals>
struct all_of {
    static constexpr typename first_unmet<Goals...>::rule checked{};
    static constexpr bool met = true;
};

/// True where all goals are met; else it does not compile, with the sentence of the first that is not.
template<class... Goals>
inline constexpr bool solved = all_of<Goals...>::met;

// ---- what puzzle programs do when they are solved (draw.cpp) ----

/// Prints a drawing of a schedule, and writes it as SVG into the file that the first argument names, if there is one.
/// Returns 0, or 2 if the file cannot be written.
int draw(schedule const& s, int argc, char** argv);
/// `formula`, if there is one, is what somebody says of a role's frames; it is printed beside those that it has.
int draw(step_program const& p, int argc, char** argv, int (*formula)(int roles, int micro_batches, int role));

/// The step of a pipeline's schedule, likewise.
template<class S, int Roles, int MicroBatches>
int draw(int argc, char** argv, int (*formula)(int, int, int) = nullptr) {
    if constexpr (trains<S, Roles, MicroBatches>::met)
        return draw(static_step<S, Roles, MicroBatches>::program, argc, argv, formula);
    else
        return 2; // never comes: the goals are not met
}

} // namespace puzzle
