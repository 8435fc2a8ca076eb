// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/parallel/step.hpp>

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/messages.hpp>
#include <support/own_schedules.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace parallel_step_test {
using namespace trireme;

namespace {

parallel_layout in_stages(schedule_choice const& schedule) {
    parallel_layout l;
    l.stages = 2;
    l.logical_shards = 4;
    l.schedule = schedule;
    return l;
}

/// Layers that add numbers over all devices: one without parameters before all others, and two that follow rows with
/// parameters.
struct counted {
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        d.kept = 2;
        d.forward = {2, {{0, 1}}};
        d.backward = {2, {{1, 1}}};
        return d;
    }
};
using of_sums = network<input<2, 4, 4>, counted, conv2d<3, kernel<1>>, batch_norm<synchronised>, relu, flatten,
                        linear<4>, batch_norm<synchronised>, linear<2>>;

/// Lines of a role in the expanded view: of an exchange its number, of a task -1.
std::vector<int> expanded(parallel_layout const& l, int role = 0) {
    rank_programs const programs(l, 0);
    std::vector<int> lines;
    std::size_t tasks = 0;
    for_each_expanded_task(l, of_sums::rows, programs.step(), role, [&](step_task const& t, int exchange) {
        CHECK(&t == &programs.step().list(role)[tasks]);
        tasks += exchange < 0 ? 1 : 0;
        lines.push_back(exchange);
    });
    CHECK(tasks == programs.step().list(role).size());
    return lines;
}

/// Schedules that are none.
struct weights_left_out {
    static constexpr char const* name = "weights_left_out";
    static constexpr int chunks = 1;
    static constexpr int write(int roles, int micro_batches, int role, scheduled_work* out) {
        int const n = gpipe::write(roles, micro_batches, role, out);
        for (int i = 0; i < n; ++i)
            if (out[i].kind == task_kind::backward) out[i].kind = task_kind::backward_input;
        return n;
    }
};
/// Writes nothing at all, as dual_pipe_v does for fewer micro-batches than two a role.
struct idle {
    static constexpr char const* name = "idle";
    static constexpr int chunks = 1;
    static constexpr int write(int, int, int, scheduled_work*) { return 0; }
};

void is_refused(schedule_choice const& schedule, char const* why) {
    CAPTURE(std::string(schedule.name));
    auto const l = in_stages(schedule);
    rank_programs const programs(l, 0);
    CHECK(test_support::refusal([&] { programs.prove(l); }).starts_with(why));
    CHECK(test_support::refusal([&] { prove_steps(l); }).starts_with(why));
}

} // namespace

TEST_SUITE("parallel/step") {
    TEST_CASE("schedules are proved for the devices that follow them, with halves and several stages, too") {
        for (schedule_choice const& schedule :
             {schedule_choice(gpipe{}), schedule_choice(one_f_one_b{}), schedule_choice(zero_bubble_h1{}),
              schedule_choice(interleaved<2>{}), schedule_choice(breadth_first<3>{}), schedule_choice(zero_bubble_v{}),
              schedule_choice(dual_pipe_v{})}) {
            CAPTURE(std::string(schedule.name));
            auto const l = in_stages(schedule);
            rank_programs const programs(l, 0);
            CHECK_NOTHROW(programs.prove(l));
            auto const frames = programs.frames(l, 1);
            CHECK(frames.halves == programs.step().has_halves());
            CHECK(frames.frames == programs.step().frames[1]);
            CHECK(frames.slots == programs.step().slots[1]);
        }
    }

    TEST_CASE("what is no training step is refused, in words that name the role and its task") {
        is_refused(own_schedules::last_first{},
                   "schedule last_first on 2 stages: its step adds gradients in another order than that "
                   "of the micro-batches, role 1, task 8");
        is_refused(weights_left_out{},
                   "schedule weights_left_out on 2 stages: its step uses gradients before all of them are there, role "
                   "1, task 16");
    }

    TEST_CASE("a transport with one queue refuses what its messages could not carry, which tags and counters do") {
        auto const l = in_stages(zero_bubble_v{});
        for (auto const& by : {by_counters, by_tagged_messages}) CHECK_NOTHROW(prove_steps(l, by));
        auto const text = test_support::refusal([&] { prove_steps(l, by_messages); });
        CHECK(
            test_support::says(text, {"schedule zero_bubble_v on 2 stages, over messages: its step sends and receives "
                                      "different things, role ",
                                      ">> "}));
        CHECK_NOTHROW(prove_steps(in_stages(zero_bubble_h1{}), by_messages));
    }

    TEST_CASE("so is a schedule that writes nothing") {
        is_refused(idle{}, "schedule idle on 2 stages: its step uses gradients before all of them are there, role 0, "
                           "task 0");
        auto l = in_stages(dual_pipe_v{});
        l.logical_shards = 3;
        CHECK_THROWS_AS(prove_steps(l), usage_error);
    }

    TEST_CASE("replicas with another number of micro-batches are proved, too") {
        auto l = in_stages(dual_pipe_v{}); // which writes nothing for less than four
        l.replicas = 2;
        l.logical_shards = 8;
        CHECK_NOTHROW(prove_steps(l));
        l.logical_shards = 7;
        CHECK_THROWS_AS(prove_steps(l), usage_error);
    }

    TEST_CASE(
        "a task is expanded into the exchanges of its rows: up on the way there, down to the first weights back") {
        parallel_layout l;
        CHECK(expanded(l) == std::vector{-1, -1}); // train and update: one replica adds nothing
        l.replicas = 3;
        // exchange 1, of the first row's way back, is below all weights
        CHECK(expanded(l) == std::vector{0, 2, 3, 5, 6, 7, 4, -1, -1, -1});
        std::vector<int> halves;
        for (auto const kind : {task_kind::forward, task_kind::backward, task_kind::backward_input,
                                task_kind::backward_weights, task_kind::evaluate})
            detail::for_exchanges(of_sums::rows, {0, 4}, kind, [&](int i) { halves.push_back(i); });
        CHECK(halves == std::vector{0, 2, 3, 4, 4});
    }

    TEST_CASE("a step that is not proved is shown with the place of the fault") {
        auto const l = in_stages(own_schedules::backwards_in_turn{});
        auto const text = test_support::refusal([&] { rank_programs(l, 0).prove(l); });
        CHECK(test_support::says(text, {" on 2 stages: its step adds gradients in another order", "role 1, task ",
                                        ": backward of micro-batch 3 in stage 1\n", "role 0  ", ">> "}));
    }
}

} // namespace parallel_step_test
