// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/networks.hpp>
#include <support/wires.hpp>

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

// Trainings whose gradients are clipped, and what they must be equal to.
namespace test_clipping {
using namespace trireme;
using test_networks::made_up;

template<class Device, class Network, class... Policies>
using clipped = test_networks::any_stages<Device, Network, cross_entropy, sgd, clip_norm, Policies...>;

/// One step with a largest norm is the step without it, its gradient shortened; weight decay is not clipped. The step
/// without it is a trainer's of its own, whose weights tell its gradient.
template<class Device, class Network, class... Policies>
void is_shortened(double tolerance) {
    using plain = trainer<Network, cross_entropy, sgd, on<mesh<Device, dp<dynamic>>>, precision<f64>, Policies...>;
    auto const images = made_up(24);
    plain whole({.learning_rate = 1.0f, .batch = 24, .seed = 5}, {.devices = 1});
    auto const before = whole.gather_parameters();
    auto const report = whole.step(images);
    CHECK(std::isnan(report.gradient_norm)); // nobody has measured it
    auto const after = whole.gather_parameters();
    double squares = 0;
    for (std::size_t i = 0; i < before.size(); ++i) squares += (before[i] - after[i]) * (before[i] - after[i]);
    double const norm = std::sqrt(squares);
    REQUIRE(norm > 0.01);

    using trainer_t = clipped<Device, Network, precision<f64>, Policies...>;
    for (float const part : {0.25f, 0.999f, 1.5f, INFINITY}) {
        CAPTURE(part);
        float const most = part * static_cast<float>(norm);
        trainer_t t({.learning_rate = 0.5f, .weight_decay = 0.125f, .max_norm = most, .batch = 24, .seed = 5},
                    {.devices = 1, .stages = 1});
        CHECK(t.step(images).gradient_norm == doctest::Approx(norm).epsilon(tolerance));
        double const factor = std::min(1.0, static_cast<double>(most) / (norm + 1e-6));
        auto const now = t.gather_parameters();
        double worst = 0;
        for (std::size_t i = 0; i < now.size(); ++i) {
            double const wanted = before[i] - 0.5 * (factor * (before[i] - after[i]) + 0.125 * before[i]);
            worst = std::max(worst, std::abs(now[i] - wanted));
        }
        CHECK(worst < tolerance);
    }
}

/// All that a clipped training tells and leaves.
template<class Trainer>
std::vector<double> trained(Trainer& t) {
    std::vector<double> told;
    for (std::size_t const n : {24u, 17u, 3u, 24u}) {
        auto const r = t.step(made_up(n, n));
        told.insert(told.end(), {r.loss, r.gradient_norm});
        CHECK(r.gradient_norm > 0.02); // it was clipped
    }
    for (auto const& epoch : t.fit({made_up(53), {}}, {.epochs = 1})) told.push_back(epoch.loss);
    auto const w = t.gather_parameters();
    told.insert(told.end(), w.begin(), w.end());
    return told;
}

template<class Device, class Network, class... Policies>
void has_one_devices_bits() {
    using trainer_t = clipped<Device, Network, Policies...>;
    typename trainer_t::options const o{
        .learning_rate = 0.5f, .max_norm = 0.02f, .batch = 24, .seed = 5, .logical_shards = 6};
    trainer_t one(o, {.devices = 1, .stages = 1});
    auto const wanted = trained(one);
    auto const check = [&](int devices, int stages, schedule_choice const& schedule) {
        CAPTURE(devices);
        CAPTURE(stages);
        CAPTURE(std::string(schedule.name));
        trainer_t t(o, {.devices = devices, .stages = stages, .schedule = schedule});
        CHECK(trained(t) == wanted);
        auto const plan = t.plan();
        CHECK(test_wires::add_up(plan));
        for (int rank = 0; rank < t.devices(); ++rank) {
            t.step(made_up(24));
            auto const before = t.wire(rank);
            t.step(made_up(24));
            CHECK(t.wire(rank).bytes - before.bytes == plan.wire(rank).bytes);
            CHECK(t.wire(rank).messages - before.messages == plan.wire(rank).messages);
        }
    };
    for (int const devices : {1, 2, 3})
        for (int const stages : {1, 2, 3})
            if (devices * stages <= 6) check(devices, stages, one_f_one_b{});
    constexpr auto most = static_cast<int>(segments_of<Network>.count);
    for (schedule_choice const& schedule :
         {schedule_choice(zero_bubble_h2{}), schedule_choice(interleaved<2>{}), schedule_choice(zero_bubble_v{})})
        for (int const stages : {2, 3})
            if (stages * schedule.chunks <= most) check(2, stages, schedule);
}

} // namespace test_clipping
