// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Trainers that take their schedule from a file: as if it had been named.

#include <trireme/schedule/pipeline/csv.hpp>
#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/built_step.hpp>
#include <support/messages.hpp>
#include <support/pipelines.hpp>

#include <concepts>
#include <cstddef>
#include <string>
#include <vector>

namespace trainer_schedules_in_files_test {
using namespace trireme;
using test_pipelines::any_pipeline;
using test_pipelines::dense;
using test_pipelines::train;
using test_support::has;
using test_support::refusal;

namespace {

/// The orders of a schedule that has a name, through PyTorch's form.
schedule_orders written(schedule_choice const& s, int roles, int micro_batches, schedule_cells cells) {
    return test_support::orders_of(s, roles, micro_batches, cells, "mine.csv");
}

using trainer_t = any_pipeline<host, dense>;
using in_parts = any_pipeline<host, dense, accumulate<2>>;
trainer_t::options const training{.learning_rate = 0.05f, .batch = 50, .seed = 3, .logical_shards = 8};

// Orders stay the caller's, who keeps them.
static_assert(std::convertible_to<schedule_orders&, schedule_choice>);
static_assert(!std::convertible_to<schedule_orders, schedule_choice>);

} // namespace

TEST_SUITE("trainer/schedules_in_files") {
    TEST_CASE("a schedule in a file trains as the one that it was written from") {
        for (schedule_choice const& schedule : {schedule_choice(one_f_one_b{}), schedule_choice(interleaved<2>{}),
                                                schedule_choice(zero_bubble_v{}), schedule_choice(dual_pipe_v{})})
            for (auto const cells : {schedule_cells::compute, schedule_cells::compute_and_moves}) {
                CAPTURE(std::string(schedule.name));
                auto const orders = written(schedule, 2, 4, cells);
                CHECK(orders.has_moves() == (cells != schedule_cells::compute));
                trainer_t named(training, {.devices = 2, .stages = 2, .schedule = schedule});
                trainer_t read(training, {.devices = 2, .stages = 2, .schedule = orders});
                CHECK(std::string(read.program(0).schedule) == "mine.csv");
                CHECK(read.plan().memory().activations == named.plan().memory().activations);
                CHECK(train(read) == train(named));
            }
    }

    TEST_CASE("it says how many micro-batches there are, and may run twice") {
        auto const orders = written(gpipe{}, 2, 3, schedule_cells::compute);
        trainer_t::options const plain{.learning_rate = 0.05f, .batch = 50};
        CHECK(trainer_t::layout_of(plain, {.stages = 2, .schedule = orders}).micro_batches == 3);
        CHECK(in_parts::layout_of({.batch = 50}, {.stages = 2, .schedule = orders}).micro_batches == 6);
        in_parts twice({.learning_rate = 0.05f, .batch = 50}, {.stages = 2, .schedule = orders});
        in_parts named({.learning_rate = 0.05f, .batch = 50}, {.stages = 2, .micro_batches = 6, .schedule = gpipe{}});
        CHECK(train(twice) == train(named));
    }

    TEST_CASE("processes agree in the orders that they have read, not in a name alone") {
        auto const text = [](schedule_orders const& orders) {
            trainer_t::run_options const run{.devices = 2, .stages = 2, .schedule = orders};
            return agreement<composition<dense, cross_entropy, sgd, portable, float>, xavier_uniform>(
                training, trainer_t::layout_of(training, run));
        };
        auto const orders = written(gpipe{}, 2, 4, schedule_cells::compute);
        CHECK(has(text(orders), "mine.csv; orders with digest "));
        CHECK(text(orders) == text(written(gpipe{}, 2, 4, schedule_cells::compute)));
        CHECK(text(orders) != text(written(one_f_one_b{}, 2, 4, schedule_cells::compute)));
        CHECK(text(orders) != text(written(gpipe{}, 2, 4, schedule_cells::compute_and_moves)));
        auto const around = parse_schedule_csv("0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0\n", "mine.csv");
        auto const there_and_back = parse_schedule_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", "mine.csv");
        CHECK(text(around) != text(there_and_back)); // the same lines, on other stages
    }

    TEST_CASE("on other devices, with other micro-batches, and in a wrong order it is refused") {
        auto const orders = written(gpipe{}, 2, 4, schedule_cells::compute);
        auto const said = [](auto const& options, trainer_t::run_options const& where) {
            auto const is = refusal([&] { trainer_t t(options, where); });
            CHECK(refusal([&] { trainer_t::check(options, where); }) == is);
            return is;
        };
        trainer_t::options const plain{.batch = 48};
        CHECK(said(plain, {.stages = 3, .schedule = orders}) ==
              "stages = 3: the schedule mine.csv was read for 2 devices of each replica; set it to 2");
        CHECK(said(plain, {.stages = 2, .micro_batches = 5, .schedule = orders}) ==
              "micro_batches = 5: the schedule mine.csv was read for 4; set it to 4");
        CHECK(said(training, {.stages = 2, .schedule = orders}) ==
              "micro_batches = 8: the schedule mine.csv was read for 4; set logical_shards to 4");
        CHECK_NOTHROW(trainer_t::check(training, {.devices = 2, .stages = 2, .schedule = orders}));
        auto const late = parse_schedule_csv("0F0,0F1,0B0,0B1\n1F0,1F1,1B1,1B0\n", "late.csv");
        CHECK(has(said(plain, {.stages = 2, .schedule = late}), "schedule late.csv on 2 stages: its step"));
        // a plan of such a layout needs no trainer, and says it, too
        auto const layout = trainer_t::layout_of(plain, {.stages = 3, .schedule = orders});
        CHECK(has(refusal([&] { (void)trainer_t::plan(48, layout).bubble(); }), "is for 2 roles and 4 micro-batches"));
    }
}

} // namespace trainer_schedules_in_files_test
