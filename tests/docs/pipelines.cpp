// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the pages say of pipeline schedules.
#include <trireme/schedules.hpp>

#include <doctest/doctest.h>

namespace docs_pipelines_test {
using namespace trireme;

// [own_schedule]
struct hasty {
    static constexpr char const* name = "hasty";
    static constexpr int chunks = 1; // stages of each role

    static constexpr int write(int, int micro_batches, int, scheduled_work* to) {
        int n = 0;
        for (std::uint16_t m = 0; m < micro_batches; ++m) {
            to[n++] = {task_kind::forward, 0, m};
            to[n++] = {task_kind::backward, 0, m};
        }
        return n;
    }
};
static_assert(verify(static_step<hasty, 2, 4>::program).ok());
static_assert(bubble_fraction(static_step<hasty, 2, 4>::program) == 0.5);
// [/own_schedule]

// [built_in_schedules]
static_assert(bubble_fraction(static_step<one_f_one_b, 4, 8>::program) > 0.27);      // 3 of 11 parts
static_assert(bubble_fraction(static_step<zero_bubble_h1, 4, 8>::program) < 0.12);   // 3 of 27
static_assert(bubble_fraction(static_step<zero_bubble_v, 4, 8>::program) < 0.06);    // 3 of 51
static_assert(static_step<zero_bubble_h1, 4, 8>::program.frames[0] == 4);            // as one_f_one_b
static_assert(static_step<zero_bubble_v, 4, 8>::program.frames[3] == 8);             // of stages half as long
static_assert(!verify(static_step<zero_bubble_v, 4, 8>::program, by_messages).ok()); // it wants counters
// [/built_in_schedules]

// [which_schedule]
constexpr stage_times mine{.forward = 1.0, .backward_input = 1.2, .backward_weights = 0.6, .transfer = 0.1};
constexpr auto& plain = static_step<one_f_one_b, 4, 16>::program;
constexpr auto& apart = static_step<zero_bubble_h1, 4, 16>::program;
static_assert(apart.frames[0] == plain.frames[0]);
static_assert(step_span(apart, mine) < 0.92 * step_span(plain, mine)); // 8 % less, with as many frames
// [/which_schedule]

TEST_SUITE("docs/pipelines") {
    TEST_CASE("the compiler has checked what the guide says of built-in schedules") {
        CHECK(verify(static_step<v_min, 4, 8>::program).ok());
    }
}

} // namespace docs_pipelines_test
