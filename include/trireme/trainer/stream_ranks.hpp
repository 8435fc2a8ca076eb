// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/collective/stage_moves.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/parallel/layout.hpp>
#include <trireme/parallel/local_ranks.hpp>
#include <trireme/parallel/plan.hpp>
#include <trireme/parallel/step.hpp>
#include <trireme/parallel/ties.hpp>
#include <trireme/schedule/pipeline/span.hpp>
#include <trireme/trainer/stream_rank.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trireme::detail {

/// The ranks of a process on accelerators, replica by replica, and the programs that each replica has. Of a replica in
/// several processes each has the whole program, and some of the ranks.
template<class Value, accelerator Device, class Transport>
class stream_ranks {
public:
    using T = Value;
    using rank_type = stream_rank<T, Device>;

    /// Granules of a replica that are evaluated together.
    std::size_t evaluated_together() const noexcept {
        return static_cast<std::size_t>(replicas_[0]->programs.evaluation().shape.micro_batches);
    }
    /// The tasks of a rank in the step, or the evaluation, that was staged in a slot, and the exchanges inside of them,
    /// as for_each_expanded_task has them: f(task, exchange, begin, end, whether it was beside what computes). Times
    /// are in nanoseconds.
    template<class F>
    void for_times(rank_type const& r, int slot, bool evaluates, F&& f) const {
        auto const& programs = programs_of(r.number - here().first);
        for_each_expanded_task(layout, model.network, evaluates ? programs.evaluation() : programs.step(),
                               layout.role_of(r.number), [&](step_task const& t, int exchange) {
                                   bool beside = t.kind == task_kind::collective;
                                   for (int k = 0; k < t.transfers; ++k) beside = beside || takes(t.moves[k]);
                                   auto const* const times = r.times(slot) + 2 * time_of(r, t, evaluates, exchange);
                                   f(t, exchange, times[0], times[1], beside);
                               });
    }
    step_program const& program(int local) const noexcept { return programs_of(local).step(); }
    /// The traffic that a rank reads from others in a step.
    traffic moved(int local) const noexcept {
        auto sum = transport.moved(local);
        auto const& r = *ranks[static_cast<std::size_t>(local)];
        int const role = layout.role_of(r.number);
        for (auto const& t : program(local).list(role))
            for (int k = 0; k < t.transfers; ++k)
                if (auto const& m = t.moves[k]; !m.sends && m.role != role) sum += traffic{1, bytes_of(m)};
        return sum += model.met_for(layout, r.number);
    }
    /// Replicas of this process, whole ones or a part of one, and its ranks of the k-th.
    std::size_t replicas() const noexcept { return replicas_.size(); }
    std::span<std::unique_ptr<rank_type> const> of_replica(std::size_t k) const noexcept {
        auto const roles = static_cast<std::size_t>(here().roles());
        return std::span(ranks).subspan(k * roles, roles);
    }
    /// The rank of a role in the k-th replica; null: another process has it.
    rank_type* find(std::size_t k, int role) const noexcept {
        return here().has(role) ? ranks[here().place(k, role)].get() : nullptr;
    }
    rank_type* find_last(std::size_t k) const noexcept { return find(k, layout.role_of_last_stage()); }

    Transport transport;
    parallel_layout layout;
    stream_model<T, Device> const& model;
    std::vector<std::unique_ptr<rank_type>> ranks; ///< of this process
    int at_rank = 0;                               ///< whose work is being handed over, for messages

protected:
    struct task_of_role {
        int role;
        step_task const* task;
        int transfer; ///< of a task that moves, what is received; -1: nothing is
        double begin;
    };
    /// The programs of a replica, in an order in which they can be handed over: that of time, if all tasks take as
    /// long, so that no message is behind one that comes later.
    struct replica {
        rank_programs programs;
        sent_places sent_in_step, sent_in_evaluation;
        std::vector<task_of_role> of_step, of_evaluation; ///< but for the tail

        replica(parallel_layout const& l, int rank)
            : programs(l, rank), sent_in_step(programs.step()), sent_in_evaluation(programs.evaluation()) {
            list(programs.step(), of_step);
            list(programs.evaluation(), of_evaluation);
        }
        static void list(step_program const& p, std::vector<task_of_role>& to) {
            play_step(
                p, [](task_kind, int) { return 1.0; },
                [&](int role, std::size_t i, double begin, double) {
                    auto const& t = p.list(role)[i];
                    if (i < p.tail[role] && !receives(t)) to.push_back({role, &t, -1, begin});
                },
                0.0,
                [&](int role, std::size_t i, int transfer, double when) {
                    to.push_back({role, &p.list(role)[i], transfer, when});
                });
            std::ranges::stable_sort(to, {}, &task_of_role::begin);
        }
        static bool receives(step_task const& t) noexcept {
            return std::any_of(t.moves, t.moves + t.transfers, [](stage_transfer const& m) { return !m.sends; });
        }
    };

    stream_ranks(parallel_layout const& l, stream_model<T, Device> const& m, std::size_t batch, auto const& where,
                 std::string const& agreed)
        : transport(l, where, agreed), layout(l), model(m) {
        make_ranks(batch);
    }
    void make_ranks(std::size_t batch) {
        Device::use(transport.device_of(0));
        for (int i = 0; i < here().count; ++i) {
            int const rank = here().first + i;
            ranks.push_back(model.make_rank(transport.device_of(i), layout, rank, batch));
            if (i % here().roles() == 0) replicas_.push_back(std::make_unique<replica>(layout, rank));
        }
    }
    local_ranks const& here() const noexcept { return transport.here(); }

    void at(rank_type const& r) noexcept { at_rank = r.number; }
    /// The tasks of a rank in a step or an evaluation, and those behind all micro-batches: as many for each replica.
    std::span<step_task const> list_of(rank_type const& r, bool evaluates = false) const noexcept {
        auto const& programs = programs_of(r.number - here().first);
        return (evaluates ? programs.evaluation() : programs.step()).list(layout.role_of(r.number));
    }
    std::span<step_task const> tail_of(rank_type const& r) const noexcept {
        return list_of(r).subspan(program(r.number - here().first).tail[layout.role_of(r.number)]);
    }
    /// The index of the times of a task in a list, or of an exchange inside it: behind the list each task has indices
    /// for all exchanges of the network.
    std::size_t time_of(rank_type const& r, step_task const& t, bool evaluates, int exchange) const noexcept {
        auto const list = list_of(r, evaluates);
        auto const task = static_cast<std::size_t>(&t - list.data());
        return exchange < 0 ? task : list.size() + task * model.exchanges.size() + static_cast<std::size_t>(exchange);
    }
    /// Tasks and exchanges whose times a rank may note in a step or an evaluation.
    std::size_t times_of(rank_type const& r) const noexcept {
        return std::max(list_of(r).size(), list_of(r, true).size()) * (1 + model.exchanges.size());
    }
    /// A micro-batch of few samples moves as much as a full one: a graph knows no other.
    bytes_t bytes_of(stage_transfer const& m) const noexcept {
        auto const rows = layout.rows_of(m.to(), model.network.depth);
        auto const bytes = model.across(m.gradient ? rows.end : rows.begin, ranks[0]->samples());
        return m.gradient ? bytes.gradients : bytes.values;
    }
    bool takes(stage_transfer const& m) const noexcept { return !m.sends && bytes_of(m) != 0; }

private:
    rank_programs const& programs_of(int local) const noexcept {
        return replicas_[static_cast<std::size_t>(here().replica_of(local))]->programs;
    }

protected:
    std::vector<std::unique_ptr<replica>> replicas_;
};

} // namespace trireme::detail
