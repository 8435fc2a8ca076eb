// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/parallel/step.hpp>

#include <trireme/schedules.hpp>

#include <doctest/doctest.h>
#include <schedule/own_schedules.hpp>
#include <support/messages.hpp>

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

void is_refused(schedule_choice const& schedule, char const* why) {
    auto const l = in_stages(schedule);
    rank_programs const programs(l, 0);
    CHECK(verify(programs.step()).ok()); // a training step, but not one that devices do
    CHECK_THROWS_WITH_AS(programs.prove(l), doctest::Contains(why), usage_error);
}

} // namespace

TEST_SUITE("parallel/step") {
    TEST_CASE("devices are given no schedule that they cannot execute, whatever a proof says") {
        for (schedule_choice const schedule : {schedule_choice(gpipe{}), schedule_choice(one_f_one_b{})}) {
            auto const l = in_stages(schedule);
            CHECK_NOTHROW(rank_programs(l, 0).prove(l));
        }
        is_refused(zero_bubble_h1{}, "schedule zero_bubble_h1 on 2 stages: its step has the halves of backward apart");
        is_refused(interleaved<2>{}, "schedule interleaved<2> on 2 stages: its step has 2 stages a role");
        is_refused(breadth_first<3>{}, "has 3 stages a role, and devices have one; write gpipe, one_f_one_b");
        is_refused(zero_bubble_v{}, "has 2 stages a role");
    }

    TEST_CASE("a step that is not proved is shown with the place of the fault") {
        auto const l = in_stages(own_schedules::backwards_in_turn{});
        auto const text = test_support::refusal([&] { rank_programs(l, 0).prove(l); });
        CHECK(test_support::says(text, {" on 2 stages: its step adds gradients in another order", "role 1, task ",
                                        ": backward of micro-batch 3 in stage 1\n", "role 0  ", ">> "}));
    }
}

} // namespace parallel_step_test
