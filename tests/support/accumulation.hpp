// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/networks.hpp>
#include <support/pipelines.hpp>

#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

// Trainings whose batches are computed in parts.
namespace test_accumulation {
using namespace trireme;
using test_networks::made_up;
using test_pipelines::train;

using with_norms = network<input<1, 28, 28>, avg_pool2d<4>, conv2d<3, kernel<3>>, batch_norm<per_shard>, relu, flatten,
                           dropout<percent<20>>, linear<10>>;

template<class Device, class Network, int N, class... Policies>
using in_parts = trainer<Network, cross_entropy, sgd_momentum, on<mesh<Device, dp<dynamic>>>, precision<f64>,
                         accumulate<N>, Policies...>;

/// A batch in parts has the gradients of the whole, but for rounding, where samples need nothing of each other.
template<class Device, class Network>
void parts_add_up_to_the_whole(int devices) {
    in_parts<Device, Network, 1> whole({.learning_rate = 0.1f, .batch = 48, .seed = 3}, {.devices = devices});
    in_parts<Device, Network, 3> parts({.learning_rate = 0.1f, .batch = 48, .seed = 3}, {.devices = devices});
    for (std::size_t const n : {48u, 31u, 48u, 6u, 100u}) { // fuller and emptier, and more than a batch
        auto const a = whole.step(made_up(n, n)), b = parts.step(made_up(n, n));
        CHECK(b.samples == n);
        CHECK(a.loss == doctest::Approx(b.loss).epsilon(1e-12));
    }
    auto const a = whole.gather_parameters(), b = parts.gather_parameters();
    double worst = 0;
    for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
    CHECK(worst < 1e-12);
    CHECK(whole.evaluate(made_up(60)).accuracy == parts.evaluate(made_up(60)).accuracy);
}

/// A device whose batch comes in parts is, for statistics and random numbers, too, as many devices: a part is what one
/// of them would have.
template<class Device>
void a_part_is_a_devices_share() {
    using parts_t = in_parts<Device, with_norms, 4>;
    using plain_t = in_parts<Device, with_norms, 1, reduce_by<chain>>;
    parts_t parts({.learning_rate = 0.1f, .batch = 64, .seed = 3}, {.devices = 1});
    plain_t devices({.learning_rate = 0.1f, .batch = 64, .seed = 3}, {.devices = 4});
    for (std::size_t const n : {64u, 33u}) {
        auto const a = parts.step(made_up(n, n)), b = devices.step(made_up(n, n));
        CHECK(a.loss == doctest::Approx(b.loss).epsilon(1e-12));
    }
    auto const a = parts.gather_parameters(), b = devices.gather_parameters();
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-9));
    // the memory of one part: activations are those of a device of four; a part fills registers of any length
    CHECK(parts.plan().memory().activations == devices.plan().memory().activations);
    plain_t whole({.batch = 64}, {.devices = 1});
    CHECK(parts.plan().memory().activations * 3 < whole.plan().memory().activations);
    CHECK(parts.plan().memory().gradients == whole.plan().memory().gradients);
}

/// A pipeline that runs its schedule several times has the bits of one device, and fewer frames.
template<class Device, class Network>
void passes_have_one_devices_bits(int devices, int stages) {
    using alone_t = test_pipelines::any_pipeline<Device, Network>;
    using twice_t = test_pipelines::any_pipeline<Device, Network, accumulate<2>>;
    typename alone_t::options const o{.learning_rate = 0.05f, .batch = 50, .seed = 3, .logical_shards = 8};
    alone_t one(o, {.devices = 1, .stages = 1});
    auto const wanted = train(one);
    for (schedule_choice const& schedule : {schedule_choice(gpipe{}), schedule_choice(one_f_one_b{})}) {
        CAPTURE(schedule.name);
        twice_t t({.learning_rate = 0.05f, .batch = 50, .seed = 3, .logical_shards = 8},
                  {.devices = devices, .stages = stages, .schedule = schedule});
        CHECK(train(t) == wanted);
        alone_t at_once(o, {.devices = devices, .stages = stages, .schedule = schedule});
        if (schedule.is<gpipe>()) CHECK(t.plan().memory(0).activations < at_once.plan().memory(0).activations);
        CHECK(t.plan().wire_bytes_per_step() == at_once.plan().wire_bytes_per_step());
        CHECK(t.plan().bubble() >= at_once.plan().bubble());
    }
}

} // namespace test_accumulation
