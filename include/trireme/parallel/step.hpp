// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/units.hpp>
#include <trireme/layer/network.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/schedule/pipeline/choice.hpp>
#include <trireme/schedule/pipeline/print.hpp>
#include <trireme/schedule/pipeline/program.hpp>
#include <trireme/schedule/pipeline/verify.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace trireme {

/// The shape of the step of a rank's replica: its logical shards are its micro-batches.
constexpr step_shape shape_of_step(parallel_layout const& l, int rank) noexcept {
    return {l.stages,
            static_cast<int>(l.shards_of_device(rank).size()),
            l.replicas,
            static_cast<int>(l.reductions()),
            l.shared_weights,
            l.clips,
            l.stages == 1 ? 1 : l.passes,
            l.ties};
}

/// The order in which a rank computes: one device with the whole network has nothing to wait for.
constexpr schedule_choice schedule_of(parallel_layout const& l) noexcept {
    return l.stages == 1 ? schedule_choice{} : l.schedule;
}

/// The order in which a layout's stages have to add gradients.
constexpr gradient_order order_of_gradients(parallel_layout const& l) noexcept {
    return l.reproducible() ? gradient_order::of_micro_batches : gradient_order::any;
}

/// The fewest micro-batches of a replica, above `has`, of which the layout's schedule makes a training step; 0 if a few
/// per stage are none.
TRIREME_COLD inline std::size_t least_micro_batches(parallel_layout const& l, std::size_t has,
                                                    lowering const& by = by_counters) {
    auto const passes = static_cast<std::size_t>(l.passes);
    auto shape = shape_of_step(l, 0);
    for (auto n = has / passes + 1; l.schedule.micro_batches == 0 && n <= 8 * static_cast<std::size_t>(l.stages); ++n) {
        shape.micro_batches = static_cast<int>(n * passes);
        std::vector<step_task> room(step_capacity(l.schedule, shape));
        if (verify(build_step(l.schedule, shape, room), by, order_of_gradients(l)).ok()) return n * passes;
    }
    return 0;
}

/// f(program) for the step of a rank's replica, which lives as long as the call.
template<class F>
constexpr auto with_step(parallel_layout const& l, int rank, F const& f) {
    auto const shape = shape_of_step(l, rank);
    auto const capacity = step_capacity(schedule_of(l), shape);
    detail::scratch<step_task> room(capacity);
    return f(build_step(schedule_of(l), shape, {room.data(), capacity}));
}

/// Frames and outgoing slots that a rank needs: none of either where one device has the whole network.
struct rank_frames {
    std::size_t frames = 0;
    std::size_t slots = 0;
    bool halves = false; ///< frames keep what the second half of backward needs of the first
};
constexpr rank_frames frames_of(parallel_layout const& l, step_program const& p, int role) noexcept {
    auto const r = static_cast<std::size_t>(role);
    return l.stages == 1 ? rank_frames{} : rank_frames{p.frames[r], p.slots[r], p.has_halves()};
}
constexpr rank_frames frames_of_rank(parallel_layout const& l, int rank) {
    if (l.stages == 1) return {};
    return with_step(l, rank, [&](step_program const& p) { return frames_of(l, p, l.role_of(rank)); });
}

/// The step program of a rank's replica, and the evaluation that goes with it, and the memory of their tasks.
class rank_programs {
public:
    TRIREME_COLD rank_programs(parallel_layout const& l, int rank)
        : of_step_(step_capacity(schedule_of(l), shape_of_step(l, rank))),
          step_(build_step(schedule_of(l), shape_of_step(l, rank), of_step_)),
          of_evaluation_(step_capacity(schedule_of(l), {l.stages, 2})),
          evaluation_(build_evaluation(schedule_of(l), step_, of_evaluation_)) {}
    rank_programs(rank_programs const&) = delete;
    rank_programs& operator=(rank_programs const&) = delete;

    step_program const& step() const noexcept { return step_; }
    /// See frames_of_rank; of a role of this program.
    rank_frames frames(parallel_layout const& l, int role) const noexcept { return frames_of(l, step_, role); }
    step_program const& evaluation() const noexcept { return evaluation_; }

    /// Proves both, for a way in which moves are carried out: a schedule may be the user's own. One device with the
    /// whole network follows none. Throws usage_error if the layout's schedule makes no training step.
    void prove(parallel_layout const& l, lowering const& by = by_counters) const {
        if (auto const v = verify(step_, by, order_of_gradients(l)); !v.ok()) {
            refuse_few_micro_batches(l, by, static_cast<std::size_t>(step_.shape.micro_batches));
            refuse(l, by, step_, v);
        }
        if (auto const v = verify_evaluation(evaluation_, by); !v.ok()) refuse(l, by, evaluation_, v);
    }

private:
    static std::string schedule_in(parallel_layout const& l, lowering const& by) {
        return "schedule " + std::string(l.schedule.name) + " on " + std::to_string(l.stages) + " stages" +
               (by.one_queue || by.rendezvous ? ", over " + std::string(by.name) : std::string());
    }
    TRIREME_COLD static void refuse_few_micro_batches(parallel_layout const& l, lowering const& by, std::size_t has) {
        auto const number = [](auto n) { return std::to_string(n); };
        if (auto const least = least_micro_batches(l, has, by); least != 0)
            throw usage_error("micro_batches = " + number(has) + ": the " + schedule_in(l, by) + " takes at least " +
                              number(least) + " of each replica; set " +
                              (l.reproducible()
                                   ? "logical_shards to " + number(least * static_cast<std::size_t>(l.replicas))
                                   : "it to " + number(least)));
    }
    [[noreturn]] TRIREME_COLD static void refuse(parallel_layout const& l, lowering const& by, step_program const& p,
                                                 program_verdict const& v) {
        throw usage_error(schedule_in(l, by) + ": its step " + marked_lists(p, v, by, order_of_gradients(l)));
    }

    std::vector<step_task> of_step_;
    step_program step_;
    std::vector<step_task> of_evaluation_;
    step_program evaluation_;
};

/// The proof of the programs of the first rank's replica, for a compiler: the step, and the evaluation that goes with
/// it.
constexpr bool makes_a_step(parallel_layout const& l, lowering const& by) {
    return with_step(l, 0, [&](step_program const& p) {
        auto const capacity = step_capacity(schedule_of(l), {l.stages, 2});
        detail::scratch<step_task> room(capacity);
        return verify(p, by, order_of_gradients(l)).ok() &&
               verify_evaluation(build_evaluation(schedule_of(l), p, {room.data(), capacity}), by).ok();
    });
}

namespace detail {

/// f(i) for the exchanges of a task of a kind in these rows, in their order; i is the number among those of the
/// network. Nothing is agreed on below the first row with parameters on the way back, nor when values are computed
/// again.
template<class F>
constexpr void for_exchanges(row_list const& network, range rows, task_kind kind, F const& f) {
    auto const all = [&f](std::size_t first, int count) {
        for (int k = 0; k < count; ++k) f(static_cast<int>(first) + k);
    };
    for (auto r = rows.begin; r < rows.end && goes_forward(kind); ++r)
        all(network.row(r).first_exchange, network.row(r).description.forward.exchanges());
    if (kind != task_kind::train && !gives_input(kind)) return;
    for (auto r = rows.end; r-- > std::max(rows.begin, network.first_trainable);) {
        auto const& d = network.row(r).description;
        all(network.row(r).first_exchange + static_cast<std::size_t>(d.forward.exchanges()), d.backward.exchanges());
    }
}

} // namespace detail

/// View of a role's list with the exchanges that rows make inside of tasks, over all replicas: f(task, exchange) for
/// each exchange of a task, by its number among those of the network, and then, since the task ends behind them,
/// f(task, -1). A trace has these lines. `network`: the rows of the trainer's, network_type::rows.
template<class F>
constexpr void for_each_expanded_task(parallel_layout const& l, detail::row_list const& network, step_program const& p,
                                      int role, F const& f) {
    for (auto const& t : p.list(role)) {
        if (l.replicas > 1 && t.computes())
            detail::for_exchanges(network, l.rows_of(p.stage(role, t.chunk), network.depth), t.kind,
                                  [&](int exchange) { f(t, exchange); });
        f(t, -1);
    }
}

/// Proves the programs of all replicas. Throws usage_error if the layout's schedule makes no training step.
TRIREME_COLD inline void prove_steps(parallel_layout const& l, lowering const& by = by_counters) {
    std::size_t before = 0; // replicas with as many micro-batches have one program
    for (int first = 0; first < l.devices() && l.stages > 1; first += l.stages) {
        auto const micro_batches = l.shards_of_device(first).size();
        if (micro_batches != before) rank_programs(l, first).prove(l, by);
        before = micro_batches;
    }
}

} // namespace trireme
