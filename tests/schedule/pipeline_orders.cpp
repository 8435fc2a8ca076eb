// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/pipeline/orders.hpp>

#include <trireme/schedules.hpp>

#include <doctest/doctest.h>
#include <support/messages.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace schedule_pipeline_orders_test {
using namespace trireme;
using test_support::refusal;
using test_support::says;

namespace {

/// The orders of a schedule of ours.
schedule_orders orders_of(schedule_choice const& s, int roles, int micro_batches,
                          schedule_cells cells = schedule_cells::compute) {
    std::vector<step_task> room(step_capacity(s, {roles, micro_batches}));
    return parse_schedule_csv(schedule_csv(build_step(s, {roles, micro_batches}, room), cells), s.name);
}

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
                std::vector<step_task> of_ours(step_capacity(s, shape)), of_orders(step_capacity(orders, shape));
                auto const ours = build_step(s, shape, of_ours), step = build_step(orders, shape, of_orders);
                CHECK(std::string(step.schedule) == s.name);
                CHECK(verify(step).ok());
                CHECK(std::equal(step.all.begin(), step.all.end(), ours.all.begin(), ours.all.end()));
                std::vector<step_task> of_evaluation(step_capacity(orders, shape));
                auto const evaluation = build_evaluation(orders, step, of_evaluation);
                CHECK(verify_evaluation(evaluation).ok());
                CHECK(evaluation.all.size() <= of_evaluation.size());
            }
    }

    TEST_CASE("orders with moves fit their room, too") {
        auto const orders = orders_of(zero_bubble_v{}, 4, 8, schedule_cells::compute_and_moves);
        CHECK(orders.has_moves());
        for (step_shape const shape : {step_shape{4, 8}, {4, 16, 3, 2, false, true, 2}}) {
            std::vector<step_task> room(step_capacity(orders, shape));
            auto const step = build_step(orders, shape, room);
            CHECK(step.all.size() <= room.size());
            CHECK(verify(step).ok());
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
        std::vector<step_task> room(1000);
        for (step_shape const shape : {step_shape{3, 4}, {2, 5}, {2, 8}, {2, 4, 1, 1, false, false, 2}})
            CHECK(says(refusal([&] { (void)build_step(orders, shape, room); }),
                       {"schedule gpipe is for 2 roles and 4 micro-batches", "shape of the schedule"}));
        CHECK_NOTHROW((void)build_step(orders, {2, 8, 1, 1, false, false, 2}, room));
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
        std::vector<step_task> room(step_capacity(orders, orders.shape()));
        CHECK(verify(build_step(orders, orders.shape(), room)).ok());
        std::vector<step_task> more_room(step_capacity(late_orders<4>{}, orders.shape()));
        CHECK(verify(build_step(late_orders<5>{}, orders.shape(), more_room)).ok());
        CHECK(verify(build_step(late_orders<4>{}, orders.shape(), more_room)).fault == program_fault::deadlock);
        // where no number helps, what is reported is not the slots
        auto const refused = late(true);
        CHECK(refused.slots() == 10);
        CHECK(verify(build_step(refused, refused.shape(), room)).fault == program_fault::sum_order);
    }
}

} // namespace schedule_pipeline_orders_test
