// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the pages say of pipeline schedules.
#include "../../examples/by_hand_pipeline.hpp"

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/files.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace docs_pipelines_test {
using namespace trireme;

// The training that examples/by_hand_pipeline.cpp does by hand; pipelines.py compares these lines.

// [concise]
using perceptron = network<input<1, 28, 28>, flatten, linear<64>, sigmoid, linear<10>>;
using concise = trainer<perceptron, cross_entropy, sgd, on<mesh<host, pp<2>>>, pipeline<one_f_one_b, 4>,
                        stages_by<cut_before<3>>>; // 0 flatten, 1 linear, 2 sigmoid | 3 linear
// [/concise]

// [concise_plan]
constexpr auto written = concise::plan(batch{256});
static_assert(written.in_flight(0) == 2);                            // frames, as many as by hand
static_assert(written.wire(0, 1).bytes == 256 * 64 * sizeof(float)); // gradients that come back in a step
static_assert(written.bubble() > 0.48);                              // the second stage hardly has anything to do
// [/concise_plan]

// [cut_by]
using uneven = network<input<1, 28, 28>, conv2d<8, kernel<3>, padding<1>>, relu, conv2d<8, kernel<3>, padding<1>>, relu,
                       conv2d<8, kernel<3>, padding<1>>, relu, avg_pool2d<2>, flatten, linear<128>, relu, linear<10>>;
template<class Cut>
using in_two_stages =
    trainer<uneven, cross_entropy, sgd_momentum, on<mesh<host, pp<2>>>, pipeline<gpipe, 4>, stages_by<Cut>>;

constexpr auto by_flops = in_two_stages<balanced_by_flops>::plan(batch{64});
constexpr auto by_memory = in_two_stages<balanced_by_memory_of<64>>::plan(batch{64}); // gpipe keeps the values of all
static_assert(by_memory.bytes_per_device() < by_flops.bytes_per_device());            // 6.2 MB, not 7.1
static_assert(by_memory.imbalance() > by_flops.imbalance());                          // 1.65, not 1.14
// [/cut_by]

// [tied]
using twice = network<input<1, 28, 28>, flatten, linear<32>, relu, linear<32>, relu, tied<3>, relu, linear<10>>;
static_assert(twice::parameters == 784 * 32 + 32 + (32 * 32 + 32) + 32 * 10 + 10); // the second linear<32> once

using one_stage = trainer<twice, cross_entropy, sgd_momentum, on<mesh<host, dp<1>>>>;
using two_stages = trainer<twice, cross_entropy, sgd_momentum, on<mesh<host, dp<1>, pp<2>>>, pipeline<one_f_one_b, 4>,
                           stages_by<cut_before<5>>>; // 0 flatten, 1 linear, 2 relu, 3 linear, 4 relu | 5 tied, ...
static_assert(one_stage::plan(batch{64}).wire_bytes_per_step() == 0);
static_assert(two_stages::plan(batch{64}).wire(0, 1).bytes >= (32 * 32 + 32) * sizeof(float)); // its gradient
static_assert(two_stages::plan(batch{64}).wire(1, 0).bytes >= (32 * 32 + 32) * sizeof(float)); // and its weights
// [/tied]

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
static_assert(!verify(static_step<zero_bubble_v, 4, 8>::program, by_messages).ok()); // it wants counters, or tags
// [/built_in_schedules]

// [named_schedule]
static_assert(schedule_named("interleaved:4").chunks == 4); // gpipe, one_f_one_b, interleaved:C, breadth_first:C, ...
// [/named_schedule]

// [which_schedule]
constexpr stage_times mine{.forward = 1.0, .backward_input = 1.2, .backward_weights = 0.6, .transfer = 0.1};
constexpr auto& plain = static_step<one_f_one_b, 4, 16>::program;
constexpr auto& apart = static_step<zero_bubble_h1, 4, 16>::program;
static_assert(apart.frames[0] == plain.frames[0]);
static_assert(step_span(apart, mine) < 0.92 * step_span(plain, mine)); // 8 % less, with as many frames
// [/which_schedule]

// [own_time]
constexpr auto& h1 = static_step<zero_bubble_h1, 4, 8>::program;
constexpr auto& h2 = static_step<zero_bubble_h2, 4, 8>::program;
static_assert(busiest_role_span(h1) == 27 && busiest_role_span(h2) == 24); // from a role's first task to its last
static_assert(step_span(h1) == 27 && step_span(h2) == 27);                 // from the first role's to the last role's
// [/own_time]

// [two_clusters]
// 64 devices, eight in a machine. Two machines share 25 GB/s, any two, or in the second cluster four at one router;
// from router to router each has 4 GB/s.
constexpr link_cost within{2e-6, 1 / 300e9, 1 / 1e12, 1e-6}, beside{5e-6, 1 / 25e9, 1 / 1e12, 2e-6},
    beyond{10e-6, 1 / 4e9, 1 / 1e12, 2e-6};
constexpr machine fat_tree{{within, beside}, levels(8, 8)}, dragonfly{{within, beside, beyond}, levels(8, 4, 2)};

using wide = network<input<1024>, repeat<32, linear<1024>, relu>, linear<10>>;
using anywhere = trainer<wide, cross_entropy, adam, on<mesh<host, dp<dynamic>, pp<dynamic>>>, reduce_by<ring>>;

training_plan spread(int replicas, int stages, schedule_choice const& schedule) {
    anywhere::run_options const where{
        .devices = replicas, .stages = stages, .micro_batches = stages == 1 ? 1u : 16u, .schedule = schedule};
    return anywhere::plan(16384, anywhere::layout_of({.batch = 16384}, where));
}
double milliseconds(training_plan const& plan, machine const& m) { return 1e3 * seconds_of(plan, m, 50e12).seconds; }
// [/two_clusters]

// [eight_and_sixteen]
constexpr machine two_routers{{within, beside, beyond}, levels(8, 1, 2)}; // two of the dragonfly's, at a router each

using by_any =
    trainer<wide, cross_entropy, adam, on<mesh<host, dp<dynamic>, pp<dynamic>>>, reduce_by<chosen_at_run_time>>;

training_plan shared(int replicas, int stages, strategy_choice const& adding, schedule_choice const& schedule = {}) {
    by_any::run_options const where{.devices = replicas,
                                    .stages = stages,
                                    .micro_batches = stages == 1 ? 1u : 16u,
                                    .schedule = schedule,
                                    .strategy = adding};
    auto layout = by_any::layout_of({.batch = 65536}, where);
    if (stages == 1 && replicas == 16) layout.groups = levels(8, 2); // for hierarchical: whose links are near ones
    return by_any::plan(65536, layout);
}
double times_as_fast(training_plan const& plan, machine const& m) {
    return seconds_of(shared(1, 1, ring{}), m, 50e12).seconds / seconds_of(plan, m, 50e12).seconds;
}
// [/eight_and_sixteen]

namespace {

double waiting_of(std::string const& path, std::string& written) {
    // [schedule_in_a_file]
    auto const orders = read_schedule_csv(path); // roles, stages and micro-batches are the file's
    std::vector<step_task> room(step_capacity(orders, orders.shape()));
    auto const step = build_step(orders, orders.shape(), room); // orders and room live as long as it
    auto const verdict = verify(step);
    if (!verdict.ok()) throw std::runtime_error(marked_lists(step, verdict));
    double const waits = bubble_fraction(step, mine);
    auto const for_torch = schedule_csv(step, schedule_cells::compute);
    // [/schedule_in_a_file]
    written = for_torch;
    return waits;
}

} // namespace

TEST_SUITE("docs/pipelines") {
    TEST_CASE("stages by hand do their tasks in the order of one_f_one_b") {
        two_queues queues;
        constexpr auto& program = static_step<one_f_one_b, 2, 4>::program;
        std::vector<std::pair<task_kind, std::size_t>> done[2], wanted[2];
        for (int role = 0; role < 2; ++role)
            for (auto const& task : program.list(role))
                if (task.computes()) wanted[role].emplace_back(task.kind, task.micro_batch);
        auto const number = [](std::size_t m) { return std::vector<float>{static_cast<float>(m)}; };
        on_two_threads(
            queues,
            [&] {
                first_stage(
                    queues, 4,
                    [&](std::size_t m) {
                        done[0].emplace_back(task_kind::forward, m);
                        return number(m);
                    },
                    [&](std::size_t m, std::vector<float> const& gradient) {
                        done[0].emplace_back(task_kind::backward, m);
                        CHECK(gradient == number(10 + m));
                    });
            },
            [&] {
                second_stage(queues, 4, [&](std::size_t m, std::vector<float> const& value) {
                    done[1].emplace_back(task_kind::forward, m);
                    done[1].emplace_back(task_kind::backward, m);
                    CHECK(value == number(m));
                    return number(10 + m);
                });
            });
        for (int role = 0; role < 2; ++role) CHECK(done[role] == wanted[role]);
    }

    TEST_CASE("an error of either stage by hand ends the other one, and is thrown") {
        for (int const failing : {0, 1, 2}) // going forward, going back, the second stage
            for (std::size_t at = 0; at < 4; ++at) {
                CAPTURE(failing);
                CAPTURE(at);
                two_queues queues;
                auto const fails = [&](int where, std::size_t m) {
                    if (where == failing && m == at) throw std::logic_error("the oar is broken");
                    return std::vector<float>(1);
                };
                auto const first = [&] {
                    first_stage(
                        queues, 4, [&](std::size_t m) { return fails(0, m); },
                        [&](std::size_t m, std::vector<float> const&) { fails(1, m); });
                };
                auto const second = [&] {
                    second_stage(queues, 4, [&](std::size_t m, std::vector<float> const&) { return fails(2, m); });
                };
                CHECK_THROWS_AS(on_two_threads(queues, first, second), std::logic_error);
            }
    }

    TEST_CASE("rows are timed, and the cut is told that balances their seconds") {
        std::ostringstream out;
        // [measured]
        auto const measured = measure_rows<uneven>(16); // samples of a micro-batch
        out << measured.policy(2) << ", imbalance " << measured.imbalance(2);
        // [/measured]
        CHECK(out.str().starts_with("stages_by<cut_before<"));
    }

    TEST_CASE("the table of two clusters is what they cost") {
        struct row {
            int replicas, stages;
            schedule_choice schedule;
            double fat_tree, dragonfly, bubble, peak, dp, pp;
        };
        for (auto const& r : {row{64, 1, {}, 12.63, 68.82, 0, 0, 16.93, 0},
                              row{16, 4, one_f_one_b{}, 4.09, 17.47, 16.54, 4, 4.03, 0.40},
                              row{16, 4, zero_bubble_h1{}, 3.91, 17.30, 6.94, 4, 4.03, 0.40},
                              row{16, 4, zero_bubble_v{}, 4.11, 17.64, 4.03, 4, 4.03, 0.81},
                              row{16, 4, v_half{}, 4.14, 17.69, 5.93, 3, 4.03, 0.81},
                              row{4, 16, one_f_one_b{}, 3.31, 5.99, 48.76, 16, 0.81, 2.01},
                              row{4, 16, zero_bubble_h1{}, 2.67, 5.35, 24.86, 16, 0.81, 2.01},
                              row{4, 16, zero_bubble_h2{}, 2.19, 4.87, 24.86, 16, 0.81, 2.01},
                              row{4, 16, zero_bubble_v{}, 2.99, 5.72, 14.75, 16, 0.81, 4.03},
                              row{4, 16, v_half{}, 3.76, 6.48, 30.24, 9, 0.81, 4.03}}) {
            CAPTURE(r.replicas);
            CAPTURE(r.schedule.name);
            auto const plan = spread(r.replicas, r.stages, r.schedule);
            CHECK(milliseconds(plan, fat_tree) == doctest::Approx(r.fat_tree).epsilon(0.002));
            CHECK(milliseconds(plan, dragonfly) == doctest::Approx(r.dragonfly).epsilon(0.002));
            CHECK(100 * plan.bubble() == doctest::Approx(r.bubble).epsilon(0.005));
            std::size_t frames = 0;
            for (int role = 0; role < r.stages; ++role)
                frames = std::max(frames, frames_of_rank(plan.layout, role).frames);
            CHECK(static_cast<double>(frames) / plan.layout.chunks() == r.peak);
            auto const gigabytes = [&](char const* axis) {
                return std::round(1e-7 * static_cast<double>(plan.wire_along(axis).bytes)) / 100;
            };
            CHECK(gigabytes("dp") == doctest::Approx(r.dp));
            CHECK(gigabytes("pp") == doctest::Approx(r.pp));
        }
    }

    TEST_CASE("the table of eight and sixteen devices is what they cost") {
        struct row {
            int replicas, stages;
            strategy_choice adding_by;
            schedule_choice schedule;
            double between, computing, adding, waiting, faster, far_adding, far_faster;
        };
        using in_levels = hierarchical<ring, ring>;
        for (auto const& r : {row{1, 1, ring{}, {}, 0, 261.34, 0, 0, 1, 0, 1},
                              row{8, 1, ring{}, {}, 0, 32.67, 0.95, 0, 7.77, 0.95, 7.77},
                              row{16, 1, ring{}, {}, 504, 16.33, 10.42, 0, 9.77, 63.49, 3.27},
                              row{16, 1, in_levels{}, {}, 269, 16.33, 1.65, 0, 14.53, 5.19, 12.14},
                              row{8, 2, ring{}, one_f_one_b{}, 470, 16.51, 4.87, 1.03, 11.66, 29.65, 5.54},
                              row{2, 8, ring{}, one_f_one_b{}, 269, 16.54, 0.70, 8.28, 10.24, 4.25, 8.99},
                              row{2, 8, ring{}, zero_bubble_h2{}, 269, 16.54, 0.70, 2.62, 13.15, 4.25, 11.16}}) {
            CAPTURE(r.replicas);
            CAPTURE(r.stages);
            CAPTURE(r.adding_by.name);
            CAPTURE(r.schedule.name);
            auto const plan = shared(r.replicas, r.stages, r.adding_by, r.schedule);
            auto const near = seconds_of(plan, fat_tree, 50e12), far = seconds_of(plan, two_routers, 50e12);
            bytes_t between = 0; // machines of eight
            for (int a = 0; a < plan.devices(); ++a)
                for (int b = 0; b < plan.devices(); ++b)
                    if (a / 8 != b / 8) between += plan.wire(a, b).bytes;
            auto const is = [](double shown) { return doctest::Approx(shown).epsilon(0.002); };
            CHECK(std::round(1e-6 * static_cast<double>(between)) == r.between);
            CHECK(1e3 * near.computing == is(r.computing));
            CHECK(1e3 * near.adding == is(r.adding));
            CHECK(1e3 * near.waiting() == is(r.waiting));
            CHECK(times_as_fast(plan, fat_tree) == is(r.faster));
            CHECK(1e3 * far.adding == is(r.far_adding));
            CHECK(times_as_fast(plan, two_routers) == is(r.far_faster));
            // the dragonfly's machines at one router have the link of the fat tree
            CHECK(seconds_of(plan, dragonfly, 50e12).seconds == near.seconds);
        }

        auto const eight = shared(8, 1, ring{}), sixteen = shared(16, 1, ring{});
        CHECK(eight.arena_elements * sizeof(float) / 1'000'000 == 134); // MB of gradients
        auto const on_the_wire = [](training_plan const& plan, link_cost const& slowest) {
            auto const n = static_cast<double>(plan.devices());
            auto const slice = static_cast<double>(plan.arena_elements * sizeof(float)) / n; // of a step of the ring
            return std::pair(1e3 * slice * slowest.beta, 2 * (n - 1) * slice * slowest.beta);
        };
        CHECK(on_the_wire(eight, within).first == doctest::Approx(0.056).epsilon(0.01));
        CHECK(on_the_wire(sixteen, beside).first == doctest::Approx(0.34).epsilon(0.02));
        CHECK(on_the_wire(sixteen, beside).second > 0.96 * seconds_of(sixteen, fat_tree, 50e12).adding);
    }

    TEST_CASE("what zero_bubble_h2 saves of a role's own time, a step by itself does not show") {
        auto const alone = step_span(h2), own = busiest_role_span(h2);
        CHECK(own == 24);
        CHECK(alone == step_span(h1));
        CHECK(alone == busiest_role_span(h1));
        // two steps that wait for one another are two of them; the roles of zero_bubble_h2 are busy 24 units of each
        CHECK(1 - own / alone == doctest::Approx(bubble_fraction(h2)));
    }

    TEST_CASE("a schedule in a file is proved, priced and written") {
        files::folder const there;
        auto const file = [&](std::string_view text) {
            return there.write("mine.csv", files::bytes(text.begin(), text.end()));
        };
        std::string written;
        CHECK(waiting_of(file("0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n"), written) > 0.25);
        CHECK(written == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
        try {
            (void)waiting_of(file("0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n"), written);
            FAIL("gradients are added from the last to the first");
        } catch (std::runtime_error const& e) {
            // as the page shows it
            CHECK(std::string(e.what()) ==
                  "adds gradients in another order than that of the micro-batches, role 1, task "
                  "4: backward of micro-batch 1 in stage 1\n"
                  "     role 0                  role 1\n"
                  "                             0 1RECV_F0\n"
                  "     0 0F0                   1 1F0\n"
                  "     1 0SEND_F0              2 1RECV_F1\n"
                  "     2 0F1                   3 1F1\n"
                  "  >  3 0SEND_F1 0RECV_B1  >> 4 1B1\n"
                  "     4 0B1                   5 1SEND_B1\n"
                  "     5 0RECV_B0              6 1B0\n"
                  "     6 0B0                   7 1SEND_B0\n"
                  "     7 update                8 update\n");
        }
    }

    TEST_CASE("a trainer takes its schedule from a file") {
        using program = trainer<test_networks::lenet, cross_entropy, sgd, on<mesh<host, dp<dynamic>, pp<dynamic>>>>;
        files::folder const there;
        std::string_view const text = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
        auto const path = there.write("mine.csv", files::bytes(text.begin(), text.end()));
        // [train_from_a_file]
        auto const orders = read_schedule_csv(path); // lives as long as the trainer
        program t{{.batch = 64}, {.stages = orders.roles(), .schedule = orders}};
        // [/train_from_a_file]
        CHECK(t.program(0).shape.micro_batches == 2);
        CHECK(std::isfinite(t.step(test_networks::made_up(64)).loss));
    }

    TEST_CASE("the compiler has checked what the guide says of built-in schedules") {
        CHECK(verify(static_step<v_min, 4, 8>::program).ok());
    }

    TEST_CASE("what the guide says of names: another one is refused with the list") {
        CHECK(schedule_names().starts_with("gpipe, one_f_one_b, interleaved:C, breadth_first:C, "));
        CHECK_THROWS_AS(schedule_named("interleaved:9"), usage_error);
    }
}

} // namespace docs_pipelines_test
