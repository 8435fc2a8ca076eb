// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What else a trainer does, with several stages a device and with the halves of backward apart: as on one device, as
// planned, and with its faults named.

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>
#include <trireme/weights.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/allocation_hook.hpp>
#include <support/arenas.hpp>
#include <support/compare.hpp>
#include <support/files.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>
#include <support/pipelines.hpp>
#include <support/traces.hpp>
#include <support/weighing.hpp>
#include <trainer/planned_faults.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace trainer_schedule_policies_test {
using namespace trireme;
using namespace test_faults;
using test_support::has;
using test_support::same_bits;
using test_weighing::labelled_table;
using test_weighing::weighing;

namespace {

/// Layers of several kinds, in nine places that stages can begin at.
using mixed = network<input<6>, linear<12>, batch_norm<per_shard>, relu, linear<10>, hyperbolic_tangent,
                      repeat<3, residual<sequential<linear<10>, sigmoid, linear<10>>>>, dropout<percent<10>>, linear<9>,
                      relu, linear<8>, batch_norm<per_shard>, linear<5>>;

/// Everything at once: state, decay of some parameters only, weighted losses; and faults.
template<class... Policies>
using with_all =
    trainer<mixed, weighing, adam, on<mesh<host, dp<dynamic>, pp<dynamic>>>, reproducible<fixed_tree, dynamic>,
            without_decay<biases, norms>, with_faults<planned_faults>, Policies...>;
using per_device = with_all<>;
using held_once = with_all<hold_weights<once>>;

template<class Trainer>
typename Trainer::options options_of(std::size_t shards = 6) {
    return {.learning_rate = 0.02f, .weight_decay = 0.1f, .batch = 48, .seed = 3, .logical_shards = shards};
}

/// Schedules of several stages, of halves, and of both.
schedule_choice const unusual[] = {interleaved<2>{}, zero_bubble_h2{}, zero_bubble_v{}, dual_pipe_v{}};
struct mesh_shape {
    int devices = 1, stages = 1;
};
constexpr mesh_shape meshes[] = {{1, 2}, {2, 2}, {1, 4}};

/// f(schedule, mesh) for all of them that can be.
template<class F>
void for_layouts(F const& f) {
    for (auto const& schedule : unusual)
        for (auto const& mesh : meshes) {
            if (schedule.is<dual_pipe_v>() && 6 / mesh.devices < 2 * mesh.stages) continue;
            CAPTURE(std::string(schedule.name));
            CAPTURE(mesh.devices);
            CAPTURE(mesh.stages);
            f(schedule, mesh);
        }
}

/// The last task of a kind in a role's list, counted among those that begin at its fault point; -1: there is none.
struct place_of_fault {
    fault_point point;
    int nth;
};
place_of_fault place_of_last(step_program const& p, int role, task_kind kind) {
    bool const forward = kind == task_kind::forward;
    place_of_fault found{forward ? fault_point::forward : fault_point::backward, -1};
    int before = 0;
    for (auto const& t : p.list(role)) {
        if (t.kind == kind) found.nth = before;
        if (t.computes() && (t.kind == task_kind::forward) == forward) ++before;
    }
    return found;
}

/// All that a training tells and leaves: losses, tests; predictions; the best of some epochs.
template<class Trainer>
std::vector<double> trained(Trainer& t) {
    auto told = test_weighing::train(t);
    labelled_table const some(48, 7), asked(29, 8), tested(40, 9);
    told.push_back(t.step(some).loss);
    auto const said = t.predict(asked);
    told.insert(told.end(), said.values().begin(), said.values().end());
    struct {
        samples_in_memory train, test;
    } const data{some.samples(), tested.samples()};
    t.set_learning_rate(0.3f); // so that tests become worse, too
    auto const best = t.train(data, {.epochs = 6, .patience = 2, .keep_best = true});
    told.insert(told.end(), {static_cast<double>(best.epoch), best.test.loss, t.evaluate(tested).loss});
    CHECK(told.back() == best.test.loss);
    for (double const x : t.gather_parameters()) told.push_back(x);
    return told;
}

} // namespace

TEST_SUITE("trainer/schedule_policies") {
    TEST_CASE("state, decay, weighted losses, predictions and best weights are those of one device") {
        watchdog const guard("policies of schedules");
        REQUIRE(segments_of<mixed>.count >= 8);
        per_device one(options_of<per_device>(), {.devices = 1, .stages = 1});
        auto const wanted = trained(one);
        for_layouts([&](schedule_choice const& schedule, mesh_shape const& mesh) {
            per_device t(options_of<per_device>(),
                         {.devices = mesh.devices, .stages = mesh.stages, .schedule = schedule});
            CHECK(same_bits(trained(t), wanted));
            held_once u(options_of<held_once>(),
                        {.devices = mesh.devices, .stages = mesh.stages, .schedule = schedule});
            CHECK(same_bits(trained(u), wanted));
        });
    }

    TEST_CASE("without logical shards weights that are held once are those that each device holds") {
        for_layouts([&](schedule_choice const& schedule, mesh_shape const& mesh) {
            if (mesh.devices == 1) return;
            per_device apart(options_of<per_device>(0),
                             {.devices = 2, .stages = 2, .micro_batches = 3, .schedule = schedule});
            held_once together(options_of<held_once>(0),
                               {.devices = 2, .stages = 2, .micro_batches = 3, .schedule = schedule});
            CHECK(same_bits(trained(together), trained(apart)));
        });
    }

    TEST_CASE("pieces come in the order of the network, files and loaded weights are those of the whole network") {
        files::folder const folder;
        for_layouts([&](schedule_choice const& schedule, mesh_shape const& mesh) {
            per_device staged(options_of<per_device>(),
                              {.devices = mesh.devices, .stages = mesh.stages, .schedule = schedule});
            staged.step(labelled_table(48));
            auto const parameters = staged.gather_parameters(), buffers = staged.gather_buffers();
            auto const tensors = tensors_of<mixed>();
            std::vector<int> seen(tensors.size());
            for (int rank = 0; rank < staged.devices(); ++rank) {
                std::vector<std::size_t> order;
                staged.for_each_piece(rank, [&](auto const& p) {
                    order.push_back(p.tensor);
                    auto const& place = tensors[p.tensor];
                    auto const& all = p.is_buffer ? buffers : parameters;
                    std::vector<float> const piece(p.values.begin(), p.values.end());
                    auto const from = all.begin() + static_cast<std::ptrdiff_t>(place.first + p.first);
                    CHECK(piece.size() == place.shape.size());
                    CHECK(same_bits(piece, std::vector<float>(from, from + static_cast<std::ptrdiff_t>(piece.size()))));
                    ++seen[p.tensor];
                });
                CHECK(std::ranges::is_sorted(order));
            }
            CHECK(std::ranges::all_of(seen, [&](int times) { return times == mesh.devices; }));
            save_weights(staged, folder.path("weights"));
            per_device other(options_of<per_device>(0), {.devices = 1, .stages = 2, .schedule = zero_bubble_v{}});
            CHECK(!same_bits(other.gather_parameters(), parameters));
            load_weights(other, folder.path("weights"));
            CHECK(same_bits(other.gather_parameters(), parameters));
            CHECK(same_bits(other.gather_buffers(), buffers));
            other.load_parameters(parameters);
            CHECK(same_bits(other.gather_parameters(), parameters));
            CHECK(other.evaluate(labelled_table(31, 4)).loss ==
                  doctest::Approx(staged.evaluate(labelled_table(31, 4)).loss).epsilon(1e-5));
        });
    }

    TEST_CASE("a model says what the trainer says, in as many stages") {
        using of_mixed = model<mixed, on<mesh<host, dp<dynamic>, pp<dynamic>>>, reproducible<fixed_tree, dynamic>>;
        labelled_table const asked(61, 3);
        std::vector<float> wanted;
        auto const says = [&](of_mixed& m, per_device const& t) {
            m.load_parameters(t.gather_parameters());
            m.load_buffers(t.gather_buffers());
            auto const said = m.predict(asked);
            return std::vector<float>(said.values().begin(), said.values().end());
        };
        per_device one(options_of<per_device>(), {.devices = 1, .stages = 1});
        one.step(labelled_table(48));
        of_mixed alone({.batch = 48, .logical_shards = 6}, {.devices = 1, .stages = 1});
        wanted = says(alone, one);
        for_layouts([&](schedule_choice const& schedule, mesh_shape const& mesh) {
            of_mixed m({.batch = 48, .logical_shards = 6},
                       {.devices = mesh.devices, .stages = mesh.stages, .schedule = schedule});
            CHECK(same_bits(says(m, one), wanted));
            per_device t(options_of<per_device>(),
                         {.devices = mesh.devices, .stages = mesh.stages, .schedule = schedule});
            t.load_parameters(one.gather_parameters());
            t.load_buffers(one.gather_buffers());
            auto const said = t.predict(asked);
            CHECK(test_support::apart(std::vector<float>(said.values().begin(), said.values().end()), wanted) < 1e-6);
        });
    }

    TEST_CASE("memory, traffic, tasks and their trace are those of the plan; a step allocates nothing") {
        labelled_table const all(48), few(13, 2);
        for_layouts([&](schedule_choice const& schedule, mesh_shape const& mesh) {
            for (std::size_t const shards : {0u, 6u}) {
                CAPTURE(shards);
                auto const o = options_of<per_device>(shards);
                per_device::run_options const r{.devices = mesh.devices,
                                                .stages = mesh.stages,
                                                .micro_batches = static_cast<std::size_t>(6 / mesh.devices),
                                                .schedule = schedule,
                                                .trace = true};
                auto const planned = per_device::plan(48, per_device::layout_of(o, r));
                allocation_hook::aligned_to_line = 0;
                per_device t(o, r);
                bytes_t most = 0;
                for (int rank = 0; rank < t.devices(); ++rank)
                    most = std::max(most, planned.map(planned.layout, 48, rank).owned().total());
                CHECK(planned.bytes_per_device() == most);
                CHECK(allocation_hook::aligned_to_line == test_support::arenas_of(planned));
                t.step(all);
                auto const before = allocation_hook::allocations.load();
                for (int k = 0; k < 2; ++k) t.step(all);
                CHECK(allocation_hook::allocations == before);
                CHECK(test_traces::trace_is_program(t, t.devices(), 3) == 0);
                t.evaluate(all); // counts as no step
                bytes_t crossed = 0;
                for (int rank = 0; rank < t.devices(); ++rank) {
                    CAPTURE(rank);
                    CHECK(t.wire(rank).bytes == 3 * planned.wire(rank).bytes);
                    CHECK(t.wire(rank).messages == 3 * planned.wire(rank).messages);
                    crossed += planned.wire(rank).bytes;
                    auto const& p = t.program(rank);
                    CHECK(verify(p).ok());
                    CHECK(p.chunks == schedule.chunks);
                    CHECK(p.has_halves() == !schedule.is<interleaved<2>>());
                }
                CHECK(crossed != 0);
                t.step(few);
                CHECK(test_traces::trace_is_program(t, t.devices(), 4) > 0);
            }
        });
    }

    TEST_CASE("a stage that throws in any kind of task is named with its rank, and nobody waits for it") {
        watchdog const guard("faults of schedules");
        labelled_table const all(48);
        for (schedule_choice const& schedule : {schedule_choice(interleaved<2>{}), schedule_choice(zero_bubble_v{})})
            for (auto const kind :
                 {task_kind::forward, task_kind::backward, task_kind::backward_input, task_kind::backward_weights})
                for (int guilty = 0; guilty < 4; ++guilty) {
                    per_device t(options_of<per_device>(), {.devices = 2, .stages = 2, .schedule = schedule});
                    auto const of = place_of_last(t.program(guilty), guilty % 2, kind);
                    if (of.nth < 0) continue; // there are none of this kind
                    CAPTURE(std::string(schedule.name));
                    CAPTURE(std::string(name_of(kind)));
                    CAPTURE(guilty);
                    t.step(all);
                    plan_fault({.point = of.point, .device = guilty, .step = 2, .nth = of.nth});
                    try {
                        t.step(all);
                        FAIL("the fault was swallowed");
                    } catch (device_error const& e) {
                        CHECK(e.device() == guilty);
                        CHECK(std::string(e.what()).starts_with("device " + std::to_string(guilty) +
                                                                ": the oar is broken"));
                    }
                    CHECK_THROWS_AS(t.step(all), usage_error);
                    plan_fault();
                }
    }

    TEST_CASE("a stage that stalls is named with its rank, the task that waits for it, and the step") {
        watchdog const guard("stalls of schedules");
        labelled_table const all(48);
        for (schedule_choice const& schedule : {schedule_choice(interleaved<2>{}), schedule_choice(zero_bubble_v{})})
            for (auto const kind : {task_kind::forward, task_kind::backward_input, task_kind::backward_weights}) {
                int const guilty = kind == task_kind::forward ? 2 : kind == task_kind::backward_input ? 1 : 0;
                auto const made = [&](std::chrono::milliseconds deadline) {
                    return per_device(options_of<per_device>(),
                                      {.devices = 2, .stages = 2, .schedule = schedule, .deadline = deadline});
                };
                auto const of = place_of_last(made(std::chrono::minutes(1)).program(guilty), guilty % 2, kind);
                if (of.nth < 0) continue;
                CAPTURE(std::string(schedule.name));
                CAPTURE(std::string(name_of(kind)));
                auto const said =
                    error_of_stall({.point = of.point, .device = guilty, .step = 2, .nth = of.nth},
                                   std::chrono::milliseconds(200), made, [&](per_device& t) { t.step(all); });
                CAPTURE(said);
                CHECK(has(said, " of training step 2"));
                CHECK((has(said, "in move (" + std::string(schedule.name) + ", schedule step ") ||
                       has(said, "in all_reduce (direct")));
            }
    }
}

} // namespace trainer_schedule_policies_test
