// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/pipeline/draw.hpp>
#include <trireme/schedule/pipeline/print.hpp>
#include <trireme/schedule/pipeline/verify.hpp>
#include <trireme/weights.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/allocation_hook.hpp>
#include <support/arenas.hpp>
#include <support/files.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>
#include <support/pipelines.hpp>
#include <support/sanitizers.hpp>
#include <support/traces.hpp>
#include <trainer/planned_faults.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace trainer_pipeline_test {
using namespace trireme;
using namespace test_networks;
using namespace test_faults;
using namespace test_pipelines;
using test_support::has;
using test_support::refusal;
using test_traces::trace_is_program;

namespace {

template<class Network, class... Policies>
using any_pipeline = test_pipelines::any_pipeline<host, Network, Policies...>;

/// A layer of a user's own that gives its input on, and takes its time on the way back.
struct slow {
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        return d;
    }
    static void forward(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.x[i];
    }
    static void backward_input(auto const& io) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        for (std::size_t i = 0; i < io.dy.size(); ++i) io.dx[i] = io.dy[i];
    }
};

} // namespace

TEST_SUITE("trainer/pipeline") {
    TEST_CASE("stages have the bits of one device, whatever the schedule") {
        watchdog const guard("pipelines");
        as_on_one_device<host, dense>(sanitized ? 4 : 6, {1, 2});
        as_on_one_device<host, lenet>(sanitized ? 2 : 3, {1, 2});
    }

    TEST_CASE("so have layers that need a whole micro-batch, that draw, and that keep statistics") {
        watchdog const guard("pipelines of every layer");
        as_on_one_device<host, every_layer>(4, {1, 3});
    }

    TEST_CASE("so have weights that are held once per stage, and double precision") {
        watchdog const guard("pipelines of weights held once");
        as_on_one_device<host, small, hold_weights<once>>(3, {1, 2});
        as_on_one_device<host, small, precision<f64>>(2, {2});
    }

    TEST_CASE("a network that is cut by hand or by memory, and a type that fixes all, train as options would") {
        typename any_pipeline<lenet>::options const o{.learning_rate = 0.05f, .batch = 50, .logical_shards = 8};
        any_pipeline<lenet> by_flops(o, {.devices = 2, .stages = 3});
        any_pipeline<lenet, stages_by<cut_before<2, 9>>> by_hand(
            {.learning_rate = 0.05f, .batch = 50, .logical_shards = 8}, {.devices = 2, .stages = 3});
        using fixed = trainer<lenet, cross_entropy, sgd_momentum, on<mesh<host, dp<2>, pp<3>>>, pipeline<gpipe, 4>,
                              reproducible<fixed_tree, 8>, stages_by<cut_before<3, 7>>>;
        fixed t({.learning_rate = 0.05f, .batch = 50}, {});
        any_pipeline<lenet, stages_by<balanced_by_memory_of<0>>> by_memory(
            {.learning_rate = 0.05f, .batch = 50, .logical_shards = 8}, {.devices = 2, .stages = 3});
        CHECK(by_memory.plan().layout.cut(3, 2).begin != by_flops.plan().layout.cut(3, 2).begin);
        auto const wanted = train(by_flops);
        CHECK(train(by_hand) == wanted);
        CHECK(train(by_memory) == wanted);
        CHECK(train(t) == wanted);
        std::vector<std::size_t> first_tensors; // of the second stage
        by_hand.for_each_piece(1, [&](auto const& p) { first_tensors.push_back(p.tensor); });
        CHECK(first_tensors == std::vector<std::size_t>{2, 3, 4, 5}); // conv2d behind row 2, linear at row 7
        static_assert(fixed::plan(batch{64}).devices() == 6);
        constexpr auto plan = fixed::plan(batch{64});
        static_assert(plan.bubble(plan.equal_stages) > 0.33 && plan.bubble(plan.equal_stages) < 0.34); // 2 of 6
        static_assert(trainer<lenet, cross_entropy, sgd>::plan(batch{64}).bubble() == 0);
    }

    TEST_CASE("a stage that is slower than those behind it gets every gradient as it was sent") {
        using net = network<input<1, 28, 28>, flatten, linear<8>, slow, linear<8>, relu, linear<10>>;
        auto const trained = [](int stages) {
            any_pipeline<net, stages_by<cut_before<3, 5>>> t({.batch = 64, .logical_shards = 8},
                                                             {.devices = 1, .stages = stages, .schedule = gpipe{}});
            t.step(made_up(64));
            return t.gather_parameters();
        };
        CHECK(same_bits(trained(3), trained(1)));
    }

    TEST_CASE("without logical shards all schedules have the same bits, near those of one device") {
        watchdog const guard("pipelines");
        auto const trained = [](int devices, int stages, std::size_t micro_batches, schedule_choice const& s) {
            any_pipeline<dense> t(
                {.learning_rate = 0.05f, .batch = 50},
                {.devices = devices, .stages = stages, .micro_batches = micro_batches, .schedule = s});
            return train(t);
        };
        auto const one = trained(1, 1, 1, {});
        for (std::size_t const micro_batches : {1u, 3u, 8u}) {
            auto const wanted = trained(2, 3, micro_batches, gpipe{});
            CHECK(trained(2, 3, micro_batches, one_f_one_b{}) == wanted);
            CHECK(test_support::apart(wanted.numbers, one.numbers) < 1e-4);
            CHECK(trained(1, 1, micro_batches, {}) == trained(1, 4, micro_batches, {}));
        }
    }

    TEST_CASE("the plan of a cut says how even it is, and how long devices wait") {
        using t = any_pipeline<lenet>;
        auto const plan_of = [](int stages, schedule_choice const& s) {
            return t::plan(64, t::layout_of({.batch = 64, .logical_shards = 8}, {.stages = stages, .schedule = s}));
        };
        auto const one = plan_of(1, gpipe{});
        CHECK(one.flops(0).total() == lenet::training_flops);
        CHECK((one.imbalance() == 1 && one.bubble() == 0));
        for (auto const& s : {schedule_choice(gpipe{}), schedule_choice(interleaved<2>{})}) {
            auto const plan = plan_of(2, s);
            std::vector<flops_t> of_role(2);
            flops_t all = 0;
            for (int stage = 0; stage < plan.layout.stage_count(); ++stage) {
                of_role[static_cast<std::size_t>(stage % 2)] += plan.flops(stage).total();
                all += plan.flops(stage).total();
            }
            CHECK(all == lenet::training_flops);
            auto const most = static_cast<double>(std::max(of_role[0], of_role[1])), sum = static_cast<double>(all);
            CHECK(plan.imbalance() == doctest::Approx(2 * most / sum));
            CHECK(plan.imbalance() > 1);
        }
        // gpipe's way there and way back each take the busier stage m times, and the other one once
        auto const plan = plan_of(2, gpipe{});
        auto const a = plan.flops(0), b = plan.flops(1);
        auto const span = [](flops_t x, flops_t y) {
            return 7.0 * static_cast<double>(std::max(x, y)) + static_cast<double>(x + y);
        };
        auto const all = span(a.forward, b.forward) +
                         span(a.backward_input + a.backward_weights, b.backward_input + b.backward_weights);
        CHECK(plan.bubble() == doctest::Approx(1 - 8.0 * static_cast<double>(lenet::training_flops) / (2 * all)));
        CHECK(plan.bubble(plan.equal_stages) == doctest::Approx(1.0 / 9));
    }

    TEST_CASE("what goes over the wire, what is allocated and how long one waits are those of the plan") {
        using trainer_t = any_pipeline<lenet>;
        auto const images = made_up(64);
        for (int const stages : {1, 2, 4})
            for (int const devices : {1, 2})
                for (std::size_t const shards : {0u, 8u}) {
                    CAPTURE(stages);
                    CAPTURE(devices);
                    CAPTURE(shards);
                    trainer_t::options const o{.batch = 64, .logical_shards = shards};
                    trainer_t::run_options const r{.devices = devices, .stages = stages};
                    auto const plan = trainer_t::plan(64, trainer_t::layout_of(o, r));
                    allocation_hook::aligned_to_line = 0;
                    trainer_t t(o, r);
                    bytes_t most = 0;
                    for (int rank = 0; rank < t.devices(); ++rank)
                        most = std::max(most, plan.map(plan.layout, 64, rank).owned().total());
                    CHECK(plan.bytes_per_device() == most);
                    CHECK(allocation_hook::aligned_to_line == test_support::arenas_of(plan));
                    t.step(images);
                    auto const before = allocation_hook::allocations.load();
                    for (int k = 0; k < 3; ++k) t.step(images);
                    CHECK(allocation_hook::allocations == before);
                    t.evaluate(images); // counts as no step
                    for (int rank = 0; rank < t.devices(); ++rank) {
                        CHECK(t.wire(rank).bytes == 4 * plan.wire(rank).bytes);
                        CHECK(t.wire(rank).messages == 4 * plan.wire(rank).messages);
                    }
                    CHECK((plan.bubble() > 0) == (stages > 1));
                }
    }

    TEST_CASE("each stage holds its own parameters; files and loaded weights are those of the whole network") {
        files::folder const folder;
        any_pipeline<every_layer> staged({.batch = 24, .seed = 5, .logical_shards = 4}, {.devices = 2, .stages = 3});
        staged.step(made_up(24));
        auto const parameters = staged.gather_parameters(), buffers = staged.gather_buffers();
        CHECK(parameters.size() == every_layer::parameters);
        CHECK(buffers.size() == every_layer::buffers);
        std::vector<float> pieces, statistics;
        std::vector<std::size_t> tensors;
        for (int rank : {3, 4, 5}) // the second replica
            staged.for_each_piece(rank, [&](auto const& p) {
                auto& to = p.is_buffer ? statistics : pieces;
                to.insert(to.end(), p.values.begin(), p.values.end());
                tensors.push_back(p.tensor);
                CHECK(p.first == 0);
            });
        CHECK(same_bits(pieces, parameters));
        CHECK(same_bits(statistics, buffers));
        CHECK(std::ranges::is_sorted(tensors));
        CHECK(tensors.size() == tensors_of<every_layer>().size());
        save_weights(staged, folder.path("weights"));
        any_pipeline<every_layer> other({.batch = 24, .seed = 6, .logical_shards = 4}, {.devices = 1, .stages = 4});
        CHECK(!same_bits(other.gather_parameters(), parameters));
        load_weights(other, folder.path("weights"));
        CHECK(same_bits(other.gather_parameters(), parameters));
        CHECK(same_bits(other.gather_buffers(), buffers));
        CHECK(other.evaluate(made_up(40)).loss == staged.evaluate(made_up(40)).loss);
    }

    TEST_CASE("every rank has the program of its replica, which is what it does") {
        any_pipeline<dense> t({.batch = 64, .logical_shards = 5}, {.devices = 2, .stages = 3});
        for (int rank = 0; rank < 6; ++rank) {
            auto const& p = t.program(rank);
            CHECK(verify(p).ok());
            CHECK(p.shape.roles == 3);
            CHECK(p.shape.micro_batches == (rank < 3 ? 2 : 3)); // logical shards fall to replicas unevenly
        }
        CHECK(has(table_of(t.program(0)), "sends values of micro-batch 1 to role 1"));
    }

    TEST_CASE("the trace of a run is the program, task by task, in the order of time") {
        for (int const stages : {1, 2, 3})
            for (int const devices : {1, 2}) {
                CAPTURE(stages);
                CAPTURE(devices);
                any_pipeline<small> t({.batch = 64, .logical_shards = 5},
                                      {.devices = devices, .stages = stages, .trace = true});
                for (int k = 0; k < 3; ++k) t.step(made_up(64));
                CHECK(trace_is_program(t, t.devices(), 3) == 0);
                t.evaluate(made_up(100));
                CHECK(trace_is_program(t, t.devices(), 3) >= 2);
                auto const all = t.traced();
                auto const json = trace_json(all);
                CHECK(has(json, R"("name": "train")") == (stages == 1));
                CHECK(has(json, R"("name": "move")") == (stages > 1));
                CHECK(static_cast<std::size_t>(std::ranges::count(json, '{')) ==
                      1 + 2 * (all.size() + static_cast<std::size_t>(t.devices())));
                drawn_tasks const parts[] = {{"measured <&>", all}};
                auto const svg = step_svg("a step", parts);
                CHECK((svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && has(svg, "measured &lt;&amp;&gt;")));
            }
        any_pipeline<small> untraced({.batch = 64}, {.devices = 1, .stages = 2});
        untraced.step(made_up(64));
        CHECK(untraced.traced().empty());
    }

    TEST_CASE("after an error the trace has what was complete") {
        using faulty = any_pipeline<small, with_faults<planned_faults>>;
        plan_fault({fault_point::backward, 1, 2, 0});
        faulty t({.batch = 64}, {.devices = 1, .stages = 2, .trace = true});
        t.step(made_up(64));
        CHECK_THROWS_AS(t.step(made_up(64)), device_error);
        CHECK_THROWS_AS((void)t.gather_parameters(), usage_error);
        std::size_t second = 0, third = 0;
        for (auto const& task : t.traced()) {
            second += task.step == 2 ? 1 : 0;
            third += task.step > 2 ? 1 : 0;
        }
        CHECK((second > 0 && third == 0));
        plan_fault({});
    }

    TEST_CASE("a log keeps the last tasks of a rank") {
        task_log log;
        for (std::size_t k = 0; k < task_log::most + 10; ++k) log.add({.step = k});
        auto const all = log.read();
        REQUIRE(all.size() == task_log::most - 1);
        CHECK((all.front().step == 11 && all.back().step == task_log::most + 9));
    }

    TEST_CASE("a device that throws is named, at any point of a step and in any stage") {
        watchdog const guard("faults");
        using faulty = any_pipeline<small, with_faults<planned_faults>>;
        for (auto const point : {fault_point::forward, fault_point::backward, fault_point::reduce, fault_point::update})
            for (int guilty = 0; guilty < 4; ++guilty) {
                CAPTURE(static_cast<int>(point));
                CAPTURE(guilty);
                plan_fault({point, guilty, 2, 0});
                faulty t({.batch = 64}, {.devices = 2, .stages = 2, .deadline = std::chrono::seconds(60)});
                CHECK_NOTHROW(t.step(made_up(64)));
                auto const start = std::chrono::steady_clock::now();
                try {
                    t.step(made_up(64));
                    FAIL("the fault was swallowed");
                } catch (device_error const& e) {
                    CHECK(e.device() == guilty);
                    CHECK(
                        std::string(e.what()).starts_with("device " + std::to_string(guilty) + ": the oar is broken"));
                }
                CHECK(std::chrono::steady_clock::now() - start <
                      std::chrono::seconds(20)); // nobody waited for the dead
                CHECK_THROWS_AS(t.step(made_up(64)), usage_error);
            }
        plan_fault({});
    }

    TEST_CASE("a stage that stalls is named with its rank, the task that waits for it, and the step") {
        watchdog const guard("stalls");
        using faulty = any_pipeline<small, with_faults<planned_faults>>;
        for (int const guilty : {0, 2, 3}) {
            CAPTURE(guilty);
            auto const images = made_up(64);
            auto const said = error_of_stall(
                {.point = fault_point::backward, .device = guilty, .step = 3}, std::chrono::milliseconds(300),
                [](std::chrono::milliseconds deadline) {
                    return faulty({.batch = 64}, {.devices = 2, .stages = 2, .deadline = deadline});
                },
                [&](faulty& t) { t.step(images); });
            CAPTURE(said);
            CHECK(has(said, " of training step 3"));
            CHECK((has(said, "in move (one_f_one_b, schedule step ") || has(said, "in all_reduce (direct")));
        }
    }

    TEST_CASE("where no bits are promised, a schedule may go back in any order") {
        last_first_has_one_devices_sums<host>();
        using promised = any_pipeline<small>;
        CHECK(has(refusal([] {
                      promised::check({.batch = 24, .logical_shards = 4},
                                      {.stages = 2, .schedule = own_schedules::last_first{}});
                  }),
                  "adds gradients in another order than that of the micro-batches, role 1"));
        using plain = trainer<small, cross_entropy, sgd, on<mesh<host, pp<2>>>, pipeline<own_schedules::last_first, 4>>;
        CHECK(plain::plan(batch{24}).bubble() > 0); // a constant: the compiler has proved it
    }

    TEST_CASE("layouts that cannot work are refused with what would") {
        using t = any_pipeline<small>; // avg_pool2d, conv2d, tanh, max_pool2d, flatten, linear
        auto const text = [](t::options const& o, t::run_options const& r) {
            auto const said = refusal([&] { t made(o, r); });
            CHECK(said == refusal([&] { t::check(o, r); }));
            return said;
        };
        CHECK(has(text({}, {.stages = 0}), "stages = 0"));
        CHECK(has(text({}, {.stages = 5}), "stages = 5: this network can be cut at 3 places, into at most 4 stages"));
        CHECK(has(text({}, {.stages = 65}), "at most 64"));
        CHECK(has(text({.batch = 512}, {.devices = 60, .stages = 5}), "devices = 60 with stages = 5"));
        for (int const stages : {1, 2})
            CHECK(has(text({.batch = 70'000}, {.stages = stages, .micro_batches = 70'000, .schedule = gpipe{}}),
                      "micro_batches = 70000: a replica's share of a batch is cut into at most 65535; take fewer"));
        CHECK(has(text({.batch = 40'000}, {.stages = 2, .micro_batches = 40'000, .schedule = breadth_first<2>{}}),
                  "schedule breadth_first<2> on 2 stages: its step overwrites what is still needed, role 0, task "));
        CHECK(has(text({.logical_shards = 8}, {.devices = 2, .stages = 2, .micro_batches = 3}),
                  "micro_batches = 3 of 2 replicas with logical_shards = 8: a replica's micro-batches are its logical "
                  "shards; set it to 4, or leave it out"));
        CHECK(has(text({.logical_shards = 8}, {.devices = 3, .stages = 2, .micro_batches = 3}), "leave it out"));
        CHECK(has(refusal([] {
                      any_pipeline<small, stages_by<cut_before<2>>> made({}, {.stages = 2}); // between conv2d and tanh
                  }),
                  "cut_before makes 2 stages, of rows that a stage can begin with, in rising order: some of "));
        CHECK(has(refusal([] { any_pipeline<small, stages_by<cut_before<3>>> made({}, {.stages = 3}); }),
                  "cut_before makes 2 stages"));
        // a schedule that makes no step of so few micro-batches
        CHECK(has(text({}, {.stages = 2, .micro_batches = 3, .schedule = dual_pipe_v{}}),
                  "micro_batches = 3: the schedule dual_pipe_v on 2 stages takes at least 4 of each replica; set it to "
                  "4"));
        CHECK(has(text({.logical_shards = 6}, {.devices = 2, .stages = 2, .schedule = dual_pipe_v{}}),
                  "takes at least 4 of each replica; set logical_shards to 8"));
        t small_batch({.batch = 8}, {.stages = 2});
        CHECK(has(refusal([&] { small_batch.step(made_up(9)); }), "give the trainer a larger batch"));
    }
}

} // namespace trainer_pipeline_test
