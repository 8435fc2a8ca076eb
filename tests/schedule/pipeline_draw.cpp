// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/pipeline/draw.hpp>
#include <trireme/schedules.hpp>

#include <doctest/doctest.h>
#include <support/built_step.hpp>
#include <support/messages.hpp>
#include <support/own_schedules.hpp>

#include <cstddef>
#include <set>
#include <string>

namespace pipeline_draw_test {
using namespace trireme;
using test_support::built_step;
using test_support::count_of;

namespace {

template<class S>
std::string drawn(int roles, int micro_batches, stage_times const& times = {}) {
    auto const all = played_tasks(built_step(S{}, {roles, micro_batches}).program, times);
    drawn_tasks const parts[] = {{"played", all}};
    return step_svg("a step", parts, "units", 1);
}
std::string colour(task_kind k, int chunk) { return "fill=\"" + detail::task_colour(k, chunk) + '"'; }

} // namespace

TEST_SUITE("schedule/pipeline_draw") {
    TEST_CASE("every kind of task, in each stage of a role, has a colour of its own") {
        std::set<std::string> colours;
        auto const kinds = {
            task_kind::forward, task_kind::backward, task_kind::backward_input, task_kind::backward_weights,
            task_kind::train,   task_kind::move,     task_kind::update};
        for (auto const kind : kinds)
            for (int chunk = 0; chunk < 4; ++chunk) colours.insert(detail::task_colour(kind, chunk));
        CHECK(colours.size() == 4 * kinds.size());
        CHECK(detail::task_colour(task_kind::forward, 0) == "#2a6496");
    }

    TEST_CASE("halves of backward and the stages of a role are told apart, and the legend names them") {
        auto const v = drawn<zero_bubble_v>(3, 4);
        for (auto const kind : {task_kind::forward, task_kind::backward_input, task_kind::backward_weights})
            for (int chunk : {0, 1}) CHECK(count_of(v, colour(kind, chunk)) == 3 * 4 + 1); // and one in the legend
        CHECK(count_of(v, colour(task_kind::backward, 0)) == 0);
        CHECK(count_of(v, ">backward_weights, 2</text>") == 1);
        CHECK(count_of(v, "<title>") == 3u * 3 * 2 * 4);
        CHECK(count_of(v, "</svg>") == 1);
        auto const one = drawn<one_f_one_b>(3, 4);
        CHECK(count_of(one, colour(task_kind::backward, 0)) == 13);
        CHECK(count_of(one, ">backward</text>") == 1);
        CHECK(count_of(one, ", 2</text>") == 0);
    }

    TEST_CASE("tasks are drawn where the played program has them") {
        auto const all = played_tasks(built_step(gpipe{}, {2, 1}).program, {1, 2, 3, 0.5});
        REQUIRE(all.size() == 4);
        double begin[2][2] = {}; // by role, and forward or backward
        for (auto const& t : all) {
            begin[t.rank][t.kind == task_kind::backward] = t.begin;
            CHECK(t.end - t.begin == (t.kind == task_kind::backward ? 5 : 1));
            CHECK(t.stage == t.rank);
        }
        CHECK(begin[0][0] == 0);
        CHECK(begin[1][0] == 1.5);
        CHECK(begin[1][1] == 2.5);
        CHECK(begin[0][1] == 8);
        CHECK(count_of(drawn<gpipe>(2, 1, {1, 2, 3, 0.5}), "13 units</text>") == 1); // where the last one ends
        CHECK(count_of(drawn<gpipe>(2, 1, {1, 2, 3, 0.5}), "backward 0, stage 1: 5.000 units") == 1);
        drawn_tasks const parts[] = {{"played", all}};
        CHECK(count_of(step_svg("a step", parts), "1.3e+04 ms</text>") == 1);
    }

    TEST_CASE("a program that is refused is drawn as far as it comes, with the task at fault in a frame") {
        built_step const step(own_schedules::last_first{}, {2, 3});
        auto const& p = step.program;
        auto const v = verify(p);
        REQUIRE(v.fault == program_fault::sum_order);
        auto const picture = refused_svg("back < forward", p, v);
        CHECK(count_of(picture, "back &lt; forward</text>") == 1);
        CHECK(count_of(picture, "stroke=\"#c62828\"") == 1);
        CHECK(count_of(picture, "adds gradients in another order than that of the micro-batches, role 1, task " +
                                    std::to_string(v.task) + ": backward of micro-batch 2 in stage 1</text>") == 1);
        CHECK(count_of(picture, "<title>") == p.all.size());
        CHECK(count_of(picture, "opacity") ==
              p.all.size() - 6 - 2 - 3); // forwards, and what is sent before, and received for them
        CHECK(count_of(picture, colour(task_kind::backward, 0) + " stroke=\"white\" opacity=\"0.3\"") == 6);
        // any order of sums will do for these
        CHECK(verify(p, by_counters, gradient_order::any).ok());
        // a fault that is seen without a play
        built_step const seen(own_schedules::from_one{}, {2, 2});
        CHECK(count_of(refused_svg("from one", seen.program, verify(seen.program)), "stroke=\"#c62828\"") == 1);
    }
}

} // namespace pipeline_draw_test
