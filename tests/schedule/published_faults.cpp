// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedules.hpp>

#include <doctest/doctest.h>

#include <schedule/naive_steps.hpp>
#include <support/built_step.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Step programs have the faults of pipelines that users of other libraries have reported.
namespace published_faults_test {
using namespace trireme;
using namespace naive_steps;
using test_support::built_step;

namespace {

/// The schedule is one_f_one_b with as many forwards ahead as there are stages behind, also in a step with fewer
/// micro-batches.
struct long_warm_up {
    static constexpr char const* name = "long_warm_up";
    static constexpr int chunks = 1;
    static constexpr int write(int roles, int m, int role, scheduled_work* out) {
        int n = 0, f = 0;
        for (; f < roles - 1 - role; ++f) out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(f)};
        for (int b = 0; b < m; ++b) {
            if (f < m) out[n++] = {task_kind::forward, 0, static_cast<std::uint16_t>(f++)};
            out[n++] = {task_kind::backward, 0, static_cast<std::uint16_t>(b)};
        }
        return n;
    }
};

// ---- changes ----

using list = std::vector<step_task>;

/// The position is that of the first task for which `is` holds.
template<class Is>
std::size_t first(list const& l, Is const& is) {
    auto const at = std::find_if(l.begin(), l.end(), is);
    REQUIRE(at != l.end());
    return static_cast<std::size_t>(at - l.begin());
}
std::size_t first(list const& l, task_kind kind, int micro_batch = 0) {
    return first(l, [&](step_task const& t) { return t.kind == kind && t.micro_batch == micro_batch; });
}
bool is_exchange(step_task const& t) { return t.transfers == 2 && t.moves[0].sends && !t.moves[1].sends; }

void erase(open_program& p, std::size_t role, std::size_t task) {
    p.tails[role] -= task < p.tails[role] ? 1 : 0;
    p.lists[role].erase(p.lists[role].begin() + static_cast<std::ptrdiff_t>(task));
}
void erase_all(open_program& p, task_kind kind) {
    for (auto& l : p.lists) std::erase_if(l, [&](step_task const& t) { return t.kind == kind; });
}
/// Every exchange becomes two moves: the send comes first, or the receive.
void split_exchanges(open_program& p, bool sends_first) {
    for (std::size_t r = 0; r < p.lists.size(); ++r)
        for (std::size_t i = 0; i < p.lists[r].size(); ++i)
            if (is_exchange(p.lists[r][i])) {
                auto sends = p.lists[r][i], receives = sends;
                sends.transfers = receives.transfers = 1;
                receives.moves[0] = receives.moves[1];
                p.lists[r][i] = sends_first ? sends : receives;
                p.lists[r].insert(p.lists[r].begin() + static_cast<std::ptrdiff_t>(++i),
                                  sends_first ? receives : sends);
                ++p.tails[r];
            }
}
/// The task comes `by` places later.
void later(open_program& p, std::size_t role, std::size_t task, std::size_t by) {
    auto const at = p.lists[role].begin() + static_cast<std::ptrdiff_t>(task);
    std::rotate(at, at + 1, at + static_cast<std::ptrdiff_t>(by) + 1);
}

/// A report tells of a public bug; the change gives the schedule's step that fault.
struct report {
    char const* where;
    char const* what; ///< that goes wrong
    schedule_choice schedule;
    step_shape shape;
    lowering by;
    void (*change)(open_program&);
    program_fault fault;
    ending end;
};
report const reports[] = {
    {"pytorch/pytorch#196666",
     "one queue carries the transfers of all edges, and they wait for one another in a circle",
     interleaved<2>{},
     {4, 8},
     by_rendezvous,
     [](open_program&) {},
     program_fault::deadlock,
     ending::never_ends},
    {"pytorch/pytorch#127332",
     "transfers of stages that go round cross, whatever their number",
     interleaved<3>{},
     {4, 16},
     by_rendezvous,
     [](open_program&) {},
     program_fault::deadlock,
     ending::never_ends},
    {"pytorch/pytorch#172668",
     "receives are moved behind sends, and both ranks wait for their send to be received",
     one_f_one_b{},
     {2, 4},
     by_rendezvous,
     [](open_program& p) { split_exchanges(p, true); },
     program_fault::deadlock,
     ending::never_ends},
    {"pytorch/pytorch#174288",
     "ranks split a group of transfers in two, and each waits for what the other's second has",
     one_f_one_b{},
     {2, 4},
     by_counters,
     [](open_program& p) { split_exchanges(p, false); },
     program_fault::deadlock,
     ending::never_ends},
    {"pytorch/torchtitan#775",
     "fewer micro-batches than stages: the warm-up goes forward with some that do not exist",
     long_warm_up{},
     {4, 2},
     by_counters,
     [](open_program&) {},
     program_fault::out_of_range,
     ending::out_of_range},
    {"pytorch/pytorch#152938",
     "of a group of transfers one handle is kept, and a receive is dropped",
     gpipe{},
     {2, 3},
     by_counters,
     [](open_program& p) { erase(p, 1, first(p.lists[1], task_kind::move)); },
     program_fault::mismatch,
     ending::left_over},
    {"pytorch/pytorch#138125",
     "two stages of one rank are neighbours, and the second waits for a message that nobody sends",
     zero_bubble_v{},
     {2, 4},
     by_counters,
     [](open_program& p) {
         auto const is_own = [](step_task const& t) { return is_exchange(t) && t.moves[0].role == 1; };
         auto& t = p.lists[1][first(p.lists[1], is_own)];
         t.moves[0] = t.moves[1];
         t.transfers = 1;
     },
     program_fault::mismatch,
     ending::never_ends},
    {"pytorch/torchtitan#1733",
     "gradients that have been weighted are weighted again",
     one_f_one_b{},
     {2, 4},
     by_counters,
     [](open_program& p) {
         for (auto& t : p.lists[0]) t.scales = t.kind == task_kind::backward;
     },
     program_fault::scale,
     ending::scale},
    {"pytorch/torchtitan#2972",
     "losses are weighted without a pipeline, and not with one",
     one_f_one_b{},
     {2, 4},
     by_counters,
     [](open_program& p) {
         for (auto& t : p.lists[1]) t.scales = false;
     },
     program_fault::scale,
     ending::scale},
    {"pytorch/pytorch#164777",
     "gradients by weights are weighted where backward is in halves",
     zero_bubble_h1{},
     {2, 4},
     by_counters,
     [](open_program& p) { p.lists[1][first(p.lists[1], task_kind::backward_weights)].scales = true; },
     program_fault::scale,
     ending::scale},
    {"pytorch/pytorch#139404",
     "a stage keeps the last gradient by its input, and an earlier one is sent later",
     gpipe{},
     {2, 3},
     by_counters,
     [](open_program& p) {
         auto const at = first(p.lists[1], task_kind::backward, 1);
         p.lists[1][at].slot = 0;
         later(p, 1, at - 1, 1);
     },
     program_fault::deadlock,
     ending::values},
    {"deepspeedai/DeepSpeed#2800",
     "with a buffer less, values are received into one that backward still reads",
     one_f_one_b{},
     {3, 6},
     by_counters,
     [](open_program& p) {
         auto const frames = --p.shape.frames[1];
         for (auto& t : p.lists[1]) {
             t.frame = static_cast<std::uint16_t>(t.frame % frames);
             for (auto& m : t.moves)
                 if (!m.sends || !m.gradient) m.place = static_cast<std::uint16_t>(m.place % frames);
         }
     },
     program_fault::overwritten,
     ending::values},
    {"NVIDIA/Megatron-LM#1012",
     "gradients are added over replicas before the last ones by weights are computed",
     zero_bubble_h1{},
     {2, 4, 2},
     by_counters,
     [](open_program& p) {
         auto const last = --p.tails[0];
         REQUIRE(p.lists[0][last].kind == task_kind::backward_weights);
         later(p, 0, last, 1);
     },
     program_fault::incomplete,
     ending::misplaced},
    {"NVIDIA/Megatron-LM#7186",
     "only the last micro-batch's gradient reaches the optimizer",
     zero_bubble_h1{},
     {2, 4},
     by_counters,
     [](open_program& p) {
         for (int m = 0; m < 3; ++m) erase(p, 0, first(p.lists[0], task_kind::backward_weights, m));
     },
     program_fault::overwritten,
     ending::count},
    {"pytorch/pytorch#134052",
     "the last of the two halves is taken for the last micro-batch: one has no gradient",
     zero_bubble_h1{},
     {2, 4},
     by_counters,
     [](open_program& p) { erase(p, 1, first(p.lists[1], task_kind::backward_weights, 3)); },
     program_fault::incomplete,
     ending::count},
    {"pytorch/pytorch#144530",
     "backward in halves goes past the hooks that add gradients over replicas",
     zero_bubble_h1{},
     {2, 4, 2},
     by_counters,
     [](open_program& p) { erase_all(p, task_kind::collective); },
     program_fault::incomplete,
     ending::parameters},
    {"huggingface/picotron#5",
     "one rank never adds its gradients over replicas",
     one_f_one_b{},
     {2, 4, 2},
     by_counters,
     [](open_program& p) { erase(p, 1, first(p.lists[1], task_kind::collective)); },
     program_fault::incomplete,
     ending::parameters},
    {"baidu-baige/LoongForge#163",
     "gradients are added over replicas with each micro-batch, not once",
     one_f_one_b{},
     {2, 2, 2},
     by_counters,
     [](open_program& p) {
         auto const at = first(p.lists[0], task_kind::collective);
         p.lists[0].insert(p.lists[0].begin() + static_cast<std::ptrdiff_t>(at), step_task(p.lists[0][at]));
     },
     program_fault::slices,
     ending::parameters},
    {"pytorch/pytorch#144535",
     "sharded gradients are used while they are still being added",
     one_f_one_b{},
     {2, 2, 2},
     by_counters,
     [](open_program& p) { later(p, 0, first(p.lists[0], task_kind::collective), 1); },
     program_fault::incomplete,
     ending::parameters},
    {"uw-syfi/piper#13",
     "gradients of tied embeddings on two devices are not added",
     gpipe{},
     {2, 2, 1, 1, false, false, 1, true},
     by_counters,
     [](open_program& p) { erase_all(p, task_kind::add_tied); },
     program_fault::incomplete,
     ending::parameters},
    {"NVIDIA/Megatron-LM#844",
     "gradients of tied embeddings are added on the wrong side of the sum over replicas",
     gpipe{},
     {2, 2, 2, 1, false, false, 1, true},
     by_counters,
     [](open_program& p) {
         for (std::size_t r = 0; r < 2; ++r) later(p, r, first(p.lists[r], task_kind::collective), 1);
     },
     program_fault::incomplete,
     ending::parameters},
};

} // namespace

TEST_SUITE("schedule/published_faults") {
    TEST_CASE("a step program that has a reported fault of a pipeline is refused for it, and does not compute a step") {
        for (auto const& is : reports) {
            CAPTURE(std::string(is.where));
            CAPTURE(std::string(is.what));
            built_step const step(is.schedule, is.shape);
            auto const& right = step.program;
            std::vector<step_task> storage;
            open_program wrong(right);
            is.change(wrong);
            if (wrong.lists != open_program(right).lists) {
                CHECK(verify(right, is.by).ok());
                CHECK(computes(right, is.by));
            }
            auto const p = wrong.closed(storage);
            auto const v = verify(p, is.by);
            CAPTURE(v.role);
            CAPTURE(v.task);
            CHECK(std::string(describe(v.fault)) == std::string(describe(is.fault)));
            auto const end = ending_of(p, is.by, expected(p, false), false, numbers::seed());
            CHECK(std::string(name_of(end)) == std::string(name_of(is.end)));
        }
    }

    TEST_CASE("transports that carry a transfer each way by itself do not have the faults of one queue") {
        for (auto const& s : {schedule_choice(zero_bubble_v{}), schedule_choice(interleaved<2>{})})
            for (auto const& by : {by_counters, by_tagged_messages}) {
                built_step const step(s, {4, 8});
                CHECK(verify(step.program, by).ok());
                CHECK(computes(step.program, by));
            }
    }
}

} // namespace published_faults_test
