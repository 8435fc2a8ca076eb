// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/pipeline/print.hpp>

#include <trireme/schedule/pipeline/csv.hpp>

#include <doctest/doctest.h>
#include <support/built_step.hpp>
#include <support/messages.hpp>
#include <support/own_schedules.hpp>

#include <string>
#include <string_view>

namespace schedule_pipeline_print_test {
using namespace trireme;
using namespace own_schedules;
using test_support::built_step;
using test_support::has;

namespace {

std::string lists_of(std::string_view csv, lowering const& by = by_counters) {
    auto const orders = parse_schedule_csv(csv, "some.csv");
    built_step const step(orders);
    return marked_lists(step.program, verify(step.program, by), by);
}

} // namespace

TEST_SUITE("schedule/pipeline_print") {
    TEST_CASE("the task at fault is marked, and where the others are") {
        CHECK(lists_of("0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1\n"
                       "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n") ==
              "waits for what cannot come, role 0, task 1: move 0SEND_F0 0RECV_B0\n"
              "     role 0                  role 1\n"
              "                             0 1RECV_F0\n"
              "     0 0F0                   1 1F0\n"
              "  >> 1 0SEND_F0 0RECV_B0  >  2 1RECV_F1\n"
              "     2 0B0                   3 1F1\n"
              "     3 0F1                   4 1B0\n"
              "     4 0SEND_F1 0RECV_B1     5 1SEND_B0\n"
              "     5 0B1                   6 1B1\n");
        CHECK(lists_of("0F0,0I0,0W0,0W0\n1F0,1B0\n") ==
              "goes the same way twice, role 0, task 4: backward_weights of micro-batch 0 in stage 0\n"
              "     role 0                  role 1\n"
              "     0 0F0                   1 1F0\n"
              "     1 0SEND_F0 0RECV_B0     2 1B0\n"
              "     2 0I0                   3 1SEND_B0\n"
              "     3 0W0                   4 update\n"
              "  >> 4 0W0                >  end\n"
              "     5 update\n");
    }

    TEST_CASE("what is missing is missing at the end of a list") {
        CHECK(lists_of("0F0\n") == "uses gradients before all of them are there, role 0, task 1: update\n"
                                   "     role 0\n"
                                   "     0 0F0\n"
                                   "  >> 1 update\n");
        built_step const whole(gpipe{}, {1, 1});
        auto step = whole.program;
        --step.begin[1]; // no update
        CHECK(
            marked_lists(step, verify(step)) ==
            "does not add, measure or update every part of the parameters exactly once, role 0, task 1: the end of its "
            "list\n"
            "     role 0\n"
            "     0 0F0 0B0\n"
            "  >> end\n");
    }

    TEST_CASE("where nothing has been played, roles have come to nothing") {
        auto const text = lists_of("0F0,0F1,0B0,0B1\n1F0,1F1,1F1,1B0,1B1\n");
        CHECK(has(text, "sends and receives different things, role 1, task 4: move 1RECV_F1\n"));
        CHECK(has(text, "     4 0B0                >> 4 1RECV_F1\n"));
        CHECK(text.find(">  ") == std::string::npos);
    }

    TEST_CASE("the lists stand where the transport leaves them") {
        auto const* text = "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3\n"
                           "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3\n";
        CHECK(lists_of(text, by_counters).starts_with("is a training step, role 0, task 0: forward of"));
        auto const stuck = lists_of(text, by_rendezvous);
        CHECK(has(stuck, "waits for what cannot come, role 0, task 11: move 2SEND_B0\n"));
        CHECK(has(stuck, "  >> 11 2SEND_B0           >  10 3SEND_B1 1RECV_F2\n"));
    }

    TEST_CASE("of many roles eight are shown, the one at fault among them") {
        for (int const wrong : {0, 3, 7, 11}) {
            std::string csv;
            for (int r = 0; r < 12; ++r) {
                auto const s = std::to_string(r);
                csv += s + "F0," + s + (r == wrong ? "I0," + s + "W0," + s + "W0\n" : "B0\n");
            }
            auto const text = lists_of(csv);
            auto const first = wrong < 4 ? 0 : wrong == 7 ? 3 : 4;
            CHECK(has(text, "twice, role " + std::to_string(wrong) + ", task "));
            CHECK(has(text, ">> "));
            CHECK(has(text, "  (roles " + std::to_string(first) + " to " + std::to_string(first + 7) + " of 12)\n"));
            CHECK(has(text, "role " + std::to_string(first) + ' '));
            CHECK(has(text, "role " + std::to_string(first + 7) + '\n'));
            CHECK_FALSE(has(text, "role " + std::to_string(first + 8)));
        }
    }

    TEST_CASE("schedules of users are shown like files") {
        built_step const step(backwards_in_turn{}, {2, 3});
        auto const text = marked_lists(step.program, verify(step.program));
        CHECK(has(text, "adds gradients in another order than that of the micro-batches, role 1, task "));
        CHECK(has(text, ": backward of micro-batch 2 in stage 1\n"));
    }
}

} // namespace schedule_pipeline_print_test
