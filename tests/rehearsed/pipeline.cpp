// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Pipelines whose stages are accelerators, rehearsed on the host.

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>
#include <support/pipelines.hpp>
#include <support/regression.hpp>
#include <support/traces.hpp>
#include <support/wires.hpp>

#include <trireme/rehearsal.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rehearsed_pipeline_test {
using namespace trireme;
using namespace rehearsed;
using test_pipelines::any_pipeline;
using test_pipelines::train;

namespace {

/// Few layers of every kind.
using shard_norm = batch_norm<per_shard>;
using mixed = network<input<1, 28, 28>, avg_pool2d<14>, conv2d<3, kernel<1>>, shard_norm, relu, flatten, linear<6>,
                      hyperbolic_tangent, residual<sequential<linear<6>, relu, linear<6>>>, dropout<percent<20>>,
                      linear<5>, sigmoid, linear<10>>;
using of_mixed = any_pipeline<rehearsal, mixed>;

using perceptrons = network<input<1, 28, 28>, flatten, linear<5>, hyperbolic_tangent, linear<4>, sigmoid, linear<10>>;

of_mixed::options const training{.learning_rate = 0.05f, .batch = 50, .seed = 3, .logical_shards = 8};

} // namespace

TEST_SUITE("rehearsed/pipeline") {
    TEST_CASE("stages have the bits of one device, however late, early or shuffled their work is done") {
        auto const wanted = [] {
            on_stage const as_usual;
            of_mixed one(training, {.devices = 1, .stages = 1});
            return train(one);
        }();
        struct order {
            timing when;
            std::uint64_t seed;
            bool eager;
        };
        for (int stages = 2; stages <= 3; ++stages)
            for (int const devices : {1, 3})
                for (schedule_choice const& schedule :
                     {schedule_choice(gpipe{}), schedule_choice(one_f_one_b{}), schedule_choice(zero_bubble_h1{})})
                    for (auto const& how : {order{timing::late, 0, false},
                                            {timing::shuffled, 1, false},
                                            {timing::shuffled, 2, true},
                                            {timing::eager, 0, true}}) {
                        CAPTURE(stages);
                        CAPTURE(devices);
                        CAPTURE(schedule.name);
                        CAPTURE(how.seed);
                        CAPTURE(how.eager);
                        on_stage const as_told(how.when, how.seed);
                        memory_taken const taken;
                        of_mixed t(training, {.devices = devices,
                                              .stages = stages,
                                              .schedule = schedule,
                                              .share_devices = true,
                                              .eager = how.eager});
                        taken.is_planned(t);
                        CHECK(train(t) == wanted);
                    }
    }

    TEST_CASE("where no bits are promised, a schedule may go back in any order") {
        for (timing const when : {timing::late, timing::shuffled}) {
            on_stage const as_told(when, 3);
            test_pipelines::last_first_has_one_devices_sums<rehearsal>();
        }
    }

    TEST_CASE("values as targets, and numbers that are no bytes, train as on one device, in stages, too") {
        using test_regression::made_up_table;
        using t =
            test_networks::any_stages<rehearsal, test_regression::curve, test_regression::squared_error, sgd_momentum>;
        t::options const options{.learning_rate = 0.05f, .batch = 96, .seed = 5, .logical_shards = 6};
        auto const wanted = [&] {
            on_stage const as_usual;
            t one(options);
            return test_regression::train(one);
        }();
        CHECK(wanted[2] < wanted[0]);
        for (int stages = 1; stages <= 3; ++stages)
            for (int const devices : {1, 3})
                for (timing const when : {timing::late, timing::shuffled}) {
                    CAPTURE(stages);
                    CAPTURE(devices);
                    on_stage const as_told(when, 3);
                    memory_taken const taken;
                    t many(options, {.devices = devices, .stages = stages, .share_devices = true});
                    taken.is_planned(many);
                    CHECK(test_regression::train(many) == wanted);
                }
        auto const after_a_step = [&](sample_set const& samples) {
            on_stage const as_usual;
            t one(options);
            one.step(samples);
            one.step(made_up_table<float>(19)); // the next one may be of another kind
            return one.gather_parameters();
        };
        auto const of_values = after_a_step(made_up_table<float>(40));
        CHECK(after_a_step(made_up_table<std::uint8_t>(40)) == of_values);
        CHECK(after_a_step(made_up_table<std::int64_t>(40)) == of_values);
        CHECK(after_a_step(made_up_table<double>(40)) == of_values);
        CHECK(after_a_step(made_up_table<std::uint32_t>(40)) == of_values);
        CHECK(after_a_step(made_up_table<std::uint64_t>(40)) == of_values);
    }

    TEST_CASE("what a plan says of a step in stages, each rank has read") {
        on_stage const as_usual;
        struct in_stages {
            int devices, stages;
            schedule_choice schedule;
        };
        for (auto const& layout :
             {in_stages{1, 3, zero_bubble_h1{}}, {2, 3, {}}, {2, 2, interleaved<2>{}}, {1, 2, zero_bubble_v{}}}) {
            int const devices = layout.devices, stages = layout.stages;
            auto const& schedule = layout.schedule;
            CAPTURE(schedule.name);
            of_mixed t(training, {.devices = devices, .stages = stages, .schedule = schedule, .share_devices = true});
            t.step(test_networks::made_up(50));
            CHECK(test_wires::add_up(t.plan()));
            CHECK((t.plan().wire_along("dp").bytes != 0) == (devices > 1));
            for (int rank = 0; rank < t.devices(); ++rank) {
                CAPTURE(rank);
                auto const planned = t.plan().wire(rank), moved = t.wire(rank);
                CHECK(moved.messages == planned.messages);
                CHECK(moved.bytes == planned.bytes);
            }
        }
    }

    TEST_CASE("so have stages that keep bf16 between the layers, and stages whose gradients are added as they come") {
        on_stage const as_told(timing::shuffled, 7);
        using in_bf16 = any_pipeline<rehearsal, mixed, precision<bf16>>;
        auto const trained = [](int devices, int stages, schedule_choice const& schedule) {
            in_bf16 t({.learning_rate = 0.05f, .batch = 50, .seed = 3, .logical_shards = 8},
                      {.devices = devices, .stages = stages, .schedule = schedule, .share_devices = true});
            return train(t);
        };
        auto const wanted = trained(1, 1, {});
        for (schedule_choice const& schedule :
             {schedule_choice(one_f_one_b{}), schedule_choice(zero_bubble_h1{}), schedule_choice(zero_bubble_h2{})})
            CHECK(trained(2, 3, schedule) == wanted);
        for (schedule_choice const& schedule : {schedule_choice(interleaved<2>{}), schedule_choice(zero_bubble_v{})})
            CHECK(trained(2, 2, schedule) == wanted);

        auto const unordered = [](int stages, std::size_t micro_batches, schedule_choice const& schedule) {
            of_mixed t({.learning_rate = 0.05f, .batch = 50, .seed = 3},
                       {.devices = 1, .stages = stages, .micro_batches = micro_batches, .schedule = schedule});
            std::vector<double> losses;
            for (int k = 0; k < 3; ++k) losses.push_back(t.step(test_networks::made_up(50)).loss);
            return losses;
        };
        auto const in_two = unordered(2, 4, gpipe{}); // they add the same numbers in the same order
        CHECK(unordered(3, 4, one_f_one_b{}) == in_two);
        CHECK(unordered(3, 4, zero_bubble_h2{}) == in_two);
    }

    TEST_CASE("devices with several stages have the bits of one stage, however late, early or shuffled work is done") {
        auto const wanted = [] {
            on_stage const as_usual;
            of_mixed one(training, {.devices = 1, .stages = 1});
            return train(one);
        }();
        for (schedule_choice const& schedule : {schedule_choice(interleaved<2>{}), schedule_choice(zero_bubble_v{}),
                                                schedule_choice(v_min{}), schedule_choice(breadth_first<3>{})})
            for (int const devices : {1, 2})
                for (timing const when : {timing::late, timing::shuffled, timing::eager}) {
                    CAPTURE(schedule.name);
                    CAPTURE(devices);
                    on_stage const as_told(when, 3);
                    memory_taken const taken;
                    of_mixed t(training, {.devices = devices,
                                          .stages = 2,
                                          .schedule = schedule,
                                          .share_devices = true,
                                          .eager = when == timing::eager});
                    taken.is_planned(t);
                    CHECK(train(t) == wanted);
                }
        on_stage const as_usual;
        of_mixed whole(training, {.devices = 1, .stages = 1, .schedule = zero_bubble_v{}}); // it follows none
        CHECK(whole.step(test_networks::made_up(50)).loss > 0);
    }

    TEST_CASE("the trace of a run is the program, as a graph and without one, with evaluations") {
        for (bool const eager : {false, true})
            for (auto const& layout :
                 {std::pair<int, schedule_choice>{1, {}}, {2, zero_bubble_h2{}}, {3, {}}, {2, zero_bubble_v{}}}) {
                int const stages = layout.first;
                auto const& schedule = layout.second;
                CAPTURE(eager);
                CAPTURE(stages);
                CAPTURE(schedule.name);
                on_stage const as_told(timing::shuffled, 4);
                of_mixed t(training, {.devices = 2,
                                      .stages = stages,
                                      .schedule = schedule,
                                      .trace = true,
                                      .share_devices = true,
                                      .eager = eager});
                t.evaluate(test_networks::made_up(20)); // the clocks begin here
                for (int k = 0; k < 3; ++k) t.step(test_networks::made_up(50));
                auto const fewest = test_traces::trace_is_program(t, t.devices(), 3);
                CHECK(fewest >= 2);
                t.evaluate(test_networks::made_up(333)); // more granules than slots
                auto const more = test_traces::trace_is_program(t, t.devices(), 3);
                CHECK(more >= fewest + 8);
                t.step(test_networks::made_up(50));
                t.predict(test_networks::made_up(70));
                CHECK(test_traces::trace_is_program(t, t.devices(), 4) > more);
                auto const json = trace_json(t.traced());
                CHECK(test_support::has(json, R"("name": "rank 1, moves")"));
            }
    }

    TEST_CASE("the trace of steps on more samples than a batch is the program, too") {
        for (std::size_t const shards : {0u, 5u}) {
            CAPTURE(shards);
            on_stage const as_told(timing::shuffled, 5);
            any_pipeline<rehearsal, perceptrons> t({.batch = 20, .logical_shards = shards},
                                                   {.devices = 2, .stages = 1, .trace = true, .share_devices = true});
            for (std::size_t const n : {81u, 20u, 3u, 45u}) t.step(test_networks::made_up(n));
            CHECK(test_traces::trace_is_program(t, t.devices(), 4) == 0);
            t.evaluate(test_networks::made_up(50));
            t.step(test_networks::made_up(45));
            CHECK(test_traces::trace_is_program(t, t.devices(), 5) >= 2);
        }
    }

    TEST_CASE("every wait between stages is needed") {
        // Spare: before the first move of a step, for what was before is done anyway; before the first stage's last way
        // back, whose kernels write nothing but gradients; and the last stage's for the move from it, for which the
        // first one waits, too.
        // With halves of backward the first stage's last gradient by its input is no longer at the end. Each replica
        // has as many.
        constexpr std::uint64_t slots = 2;
        auto const are_needed = [](std::uint64_t spare, std::size_t micro_batches, schedule_choice const& schedule,
                                   int replicas = 1) {
            CAPTURE(std::string(schedule.name));
            CAPTURE(replicas);
            every_wait_is_needed(spare, [&] {
                any_pipeline<rehearsal, perceptrons> t({.learning_rate = 0.1f, .batch = 8, .seed = 6},
                                                       {.devices = replicas,
                                                        .stages = 2,
                                                        .micro_batches = micro_batches,
                                                        .schedule = schedule,
                                                        .share_devices = true});
                return epoch_of(t, 20);
            });
        };
        are_needed(slots * 3, 4, one_f_one_b{});
        are_needed(slots * 2, 3, zero_bubble_h1{});
        are_needed(2 * slots * 3, 2, one_f_one_b{}, 2);
    }
}

} // namespace rehearsed_pipeline_test
