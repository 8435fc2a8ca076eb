// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/words.hpp>
#include <trireme/schedule/pipeline/verify.hpp>

namespace trireme {

/// A schedule's program that is no training step, by its fault. The words name the schedule, the role and the number of
/// its task where it goes wrong, and the micro-batch of that task.
template<program_fault, class... Where>
struct pipeline_schedule_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0097: this schedule is no training step: the task named here reads what is not there, or "
                  "overwrites what is still needed");
};
template<class... Where>
struct pipeline_schedule_rule<program_fault::out_of_range, Where...> {
    static_assert(rule_holds<Where...>,
                  "TRI0140: this role writes a task that does not exist: micro-batches and the stages of a role are "
                  "counted from 0, each stage has one role, and a role has at most three lines for each of its "
                  "micro-batches and stages");
};
template<class... Where>
struct pipeline_schedule_rule<program_fault::order, Where...> {
    static_assert(rule_holds<Where...>,
                  "TRI0141: this role goes back before it has gone forward, or adds the weights' gradients before "
                  "backward_input: swap the task named here with a later one");
};
template<class... Where>
struct pipeline_schedule_rule<program_fault::twice, Where...> {
    static_assert(rule_holds<Where...>,
                  "TRI0142: this role sends a micro-batch the same way twice: leave out the task named here");
};
template<class... Where>
struct pipeline_schedule_rule<program_fault::sum_order, Where...> {
    static_assert(rule_holds<Where...>,
                  "TRI0143: this role adds gradients in another order than that of the micro-batches, so that the bits "
                  "are not those of one device: go back from 0 upwards, or leave out reproducible");
};
template<class... Where>
struct pipeline_schedule_rule<program_fault::mismatch, Where...> {
    static_assert(rule_holds<Where...>,
                  "TRI0144: this role and its neighbour send and receive different micro-batches, or in different "
                  "orders: let both do the same ones in one order");
};
template<class... Where>
struct pipeline_schedule_rule<program_fault::deadlock, Where...> {
    static_assert(rule_holds<Where...>,
                  "TRI0145: this role waits for ever: what the task named here needs comes only after something that "
                  "this role has not done yet; do that first");
};
template<class... Where>
struct pipeline_schedule_rule<program_fault::incomplete, Where...> {
    static_assert(rule_holds<Where...>,
                  "TRI0146: a gradient is lost: this role updates its weights before it has added the gradients of "
                  "every micro-batch; let none be left out");
};

/// A schedule that makes a training step of more micro-batches.
template<class... Where>
struct few_micro_batches_rule {
    static_assert(rule_holds<Where...>,
                  "TRI0147: this schedule makes no training step of so few micro-batches on so many stages: write as "
                  "many as the words name, in pipeline<schedule, MicroBatches>, or, times the number of replicas, in "
                  "reproducible<fixed_tree, V>");
};

namespace detail {

/// The micro-batch of the task at fault; -1 where it has none.
constexpr int micro_batch_at(step_program const& p, program_verdict const& v) {
    auto const list = p.list(v.role);
    auto const i = static_cast<std::size_t>(v.task);
    if (i >= list.size() || is_of_slices(list[i].kind)) return -1;
    return list[i].kind == task_kind::move ? list[i].moves[0].micro_batch : list[i].micro_batch;
}

} // namespace detail

} // namespace trireme
