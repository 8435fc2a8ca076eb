// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/networks.hpp>
#include <support/pipelines.hpp>
#include <support/tied_networks.hpp>
#include <support/traces.hpp>
#include <support/wires.hpp>

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

// Trainings of networks some of whose rows have one row's parameters.
namespace test_tying {
using namespace trireme;
using test_networks::made_up;
using test_pipelines::train;

/// A trainer of such a network on any devices and stages.
template<class Device, class Network, class... Policies>
using any_tied = test_pipelines::any_pipeline<Device, Network, Policies...>;

/// Trainings of a network with tied rows: the bits of one device, the program as their trace, and no other bytes on the
/// wire than the plan's. `look(make)` calls make(taken), which makes the trainer and hands it to `taken`.
template<class Device, class Network, class... Policies, class Look>
void has_the_bits_of_one_device(std::vector<schedule_choice> const& schedules, std::vector<int> const& devices,
                                std::vector<int> const& stages, Look const& look) {
    using trainer_t = any_tied<Device, Network, Policies...>;
    typename trainer_t::options const o{.learning_rate = 0.05f, .batch = 50, .seed = 3, .logical_shards = 8};
    trainer_t one(o, {.devices = 1, .stages = 1});
    auto const wanted = train(one);
    for (int const n : devices)
        for (int const p : stages)
            for (auto const& schedule : schedules) {
                bool const fits = static_cast<std::size_t>(p * schedule.chunks) <= segments_of<Network>.count;
                if (p == 1 ? &schedule != &schedules.front() : !fits) continue;
                CAPTURE(n);
                CAPTURE(p);
                CAPTURE(std::string(schedule.name));
                look([&](auto const& taken) {
                    trainer_t t(o, {.devices = n, .stages = p, .schedule = schedule, .trace = true});
                    taken(t);
                    CHECK(train(t) == wanted);
                    CHECK_NOTHROW(test_traces::trace_is_program(t, n * p, test_pipelines::steps_of_training));
                    CHECK(test_wires::reads_as_planned(t, made_up(50), 0, n * p));
                    CHECK(test_wires::add_up(t.plan()));
                });
            }
}

} // namespace test_tying
