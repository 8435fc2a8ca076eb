// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/pipeline/orders.hpp>

#include <trireme/schedules.hpp>

#include <doctest/doctest.h>
#include <support/built_step.hpp>
#include <support/messages.hpp>

#include <algorithm>
#include <string>

namespace schedule_pipeline_orders_test {
using namespace trireme;
using test_support::built_evaluation;
using test_support::built_step;
using test_support::orders_of;
using test_support::refusal;
using test_support::says;

namespace {

/// Schedule: role 1 goes back five times before role 0, which is still forward, takes the first gradient.
template<int Slots>
struct late_orders {
    static constexpr char const* name = "late";
    static constexpr int chunks = 2;
    static constexpr int stage(int, int role, int chunk) { return role == 0 ? 3 * chunk : 1 + chunk; }
    static constexpr int slots(int, int) { return Slots; }
    static constexpr int write(int, int micro_batches, int, scheduled_work* out) {
        int n = 0;
        for (auto const kind : {task_kind::forward, task_kind::backward})
            for (int const chunk : {0, 1})
                for (int m = 0; m < micro_batches; ++m)
                    out[n++] = {kind, static_cast<std::uint8_t>(kind == task_kind::forward ? chunk : 1 - chunk),
                                static_cast<std::uint16_t>(m)};
        return n;
    }
};

/// Schedule: the same in groups of seven micro-batches.
struct late_in_groups : late_orders<7> {
    static constexpr int write(int roles, int micro_batches, int role, scheduled_work* out) {
        int n = 0;
        for (int group = 0; group < micro_batches; group += 7)
            for (int const end = n + late_orders<7>::write(roles, 7, role, out + n); n < end; ++n)
                out[n].micro_batch = static_cast<std::uint16_t>(out[n].micro_batch + group);
        return n;
    }
};

} // namespace

TEST_SUITE("schedule/pipeline_orders") {
    TEST_CASE("orders make the step, and the evaluation, of the schedule that they were taken from") {
        schedule_choice const all[] = {one_f_one_b{}, interleaved<2>{}, zero_bubble_h1{}, zero_bubble_v{}};
        for (auto const& s : all)
            for (step_shape const shape : {step_shape{3, 6},
                                           {3, 6, 2, 3},
                                           {3, 6, 2, 2, true},
                                           {3, 6, 1, 1, false, true},
                                           {3, 12, 2, 1, false, false, 2}}) {
                auto const orders = orders_of(s, 3, 6);
                built_step const of_ours(s, shape), of_orders(orders, shape);
                auto const &ours = of_ours.program, &step = of_orders.program;
                CHECK(std::string(step.schedule) == s.name);
                CHECK(verify(step).ok());
                CHECK(std::equal(step.all.begin(), step.all.end(), ours.all.begin(), ours.all.end()));
                built_evaluation const evaluation(orders, step);
                CHECK(verify_evaluation(evaluation.program).ok());
                CHECK(evaluation.program.all.size() <= evaluation.room.size());
            }
    }

    TEST_CASE("orders with moves fit their room, too") {
        auto const orders = orders_of(zero_bubble_v{}, 4, 8, schedule_cells::compute_and_moves);
        CHECK(orders.has_moves());
        for (step_shape const shape : {step_shape{4, 8}, {4, 16, 3, 2, false, true, 2}}) {
            built_step const step(orders, shape);
            CHECK(step.program.all.size() <= step.room.size());
            CHECK(verify(step.program).ok());
        }
        auto const derived = orders.without_moves();
        CHECK_FALSE(derived.has_moves());
        CHECK(derived.name() == orders.name());
        for (int r = 0; r < 4; ++r) {
            CHECK(derived.order(r).size() == 2 * 8 * 3);
            for (auto const& line : derived.order(r)) CHECK(line.kind != task_kind::move);
        }
    }

    TEST_CASE("a step of another shape is refused, with both") {
        auto const orders = orders_of(gpipe{}, 2, 4);
        for (step_shape const shape : {step_shape{3, 4}, {2, 5}, {2, 8}, {2, 4, 1, 1, false, false, 2}})
            CHECK(says(refusal([&] { built_step const step(orders, shape); }),
                       {"schedule gpipe is for 2 roles and 4 micro-batches", "shape of the schedule"}));
        CHECK_NOTHROW(built_step(orders, {2, 8, 1, 1, false, false, 2}));
    }

    TEST_CASE("a role has as many slots for gradients as its order needs, and no more") {
        CHECK(orders_of(one_f_one_b{}, 4, 8).slots() == default_slots);
        // role 1 goes back five times before role 0, which is still forward, takes the first gradient
        auto const late = [](bool reversed) {
            auto const all = [&](std::string const& stage, char kind) {
                std::string cells;
                for (int m = 0; m < 5; ++m)
                    cells += stage + kind + std::to_string(reversed && kind == 'B' ? 4 - m : m) + ",";
                return cells;
            };
            return parse_schedule_csv(all("0", 'F') + all("3", 'F') + all("3", 'B') + all("0", 'B') + "\n" +
                                          all("1", 'F') + all("2", 'F') + all("2", 'B') + all("1", 'B'),
                                      "late");
        };
        auto const orders = late(false);
        CHECK(orders.slots() == 5);
        CHECK(verify(built_step(orders).program).ok());
        CHECK(verify(built_step(late_orders<5>{}, orders.shape()).program).ok());
        CHECK(verify(built_step(late_orders<4>{}, orders.shape()).program).fault == program_fault::deadlock);
        // a role has a slot at least, and no more than have numbers
        static_assert(verify(static_step<late_orders<0>, 2, 5>::program).fault == program_fault::deadlock);
        for (schedule_choice const& few : {schedule_choice(late_orders<0>{}), schedule_choice(late_orders<-1>{})})
            CHECK(verify(built_step(few, orders.shape()).program).fault == program_fault::deadlock);
        CHECK(verify(built_step(late_orders<65536>{}, orders.shape()).program).ok());
        // the order of the gradients is a matter of reproducible trainers, and asks for no slots
        auto const backwards = late(true);
        CHECK(backwards.slots() == 5);
        CHECK(verify(built_step(backwards).program, by_counters, gradient_order::any).ok());
        CHECK(verify(built_step(backwards).program).fault == program_fault::sum_order);
        auto const last_first =
            parse_schedule_csv("0F0,0F1,0F2,0F3,0B3,0B2,0B1,0B0\n1F0,1F1,1F2,1F3,1B3,1B2,1B1,1B0\n", "last first");
        CHECK(last_first.slots() == default_slots);
        CHECK(verify(built_step(last_first).program, by_counters, gradient_order::any).ok());
        // where no number helps, what is reported is not the slots
        auto const refused = parse_schedule_csv("0F0,0F1,0F2,0B0,0B1,0B2\n1F1,1F0,1F2,1B0,1B1,1B2\n", "refused");
        CHECK(refused.slots() == 3);
        CHECK(verify(built_step(refused).program).fault == program_fault::mismatch);
        auto const unfinished = parse_schedule_csv("0F0,0F1,0F2\n1F0,1B0\n", "unfinished");
        CHECK(unfinished.slots() == 3);
    }

    TEST_CASE("slots are taken in turn, however many gradients a role sends") {
        int const micro_batches = 32774; // two gradients each: more than have numbers of 16 bits
        CHECK(verify(built_step(late_in_groups{}, {2, micro_batches}).program).ok());
    }

    TEST_CASE("orders that take a frame in each line of every pass are refused") {
        std::string cells;
        for (int i = 0; i < 65535; ++i) cells += "0F0,";
        auto const orders = parse_schedule_csv(cells, "only forward");
        CHECK(verify(built_step(orders, {1, 2, 1, 1, false, false, 2}).program).fault == program_fault::twice);
    }
}

} // namespace schedule_pipeline_orders_test
