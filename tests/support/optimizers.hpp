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
#include <memory>
#include <vector>

// Trainings with optimizers that keep state, on any devices, and what they must be equal to.
namespace test_optimizers {
using namespace trireme;
using test_networks::made_up;
using test_pipelines::train;

template<class Optimizer, class Device, class Network, class... Policies>
using any_optimizer = test_networks::any_stages<Device, Network, cross_entropy, Optimizer, Policies...>;

/// Several steps are those that a formula makes of the gradients, which a trainer with sgd tells, from the same
/// weights. `formula(step, w, g, first, second)`, steps counted from 1, changes a weight and the two numbers kept of
/// it.
template<class Device, class Network, class Trainer, class Formula>
void follows(Trainer& t, double tolerance, Formula const& formula) {
    using plain = trainer<Network, cross_entropy, sgd, on<mesh<Device, dp<dynamic>>>, precision<f64>>;
    plain gradient({.learning_rate = 1.0f, .batch = 24, .seed = 5}, {.devices = 1});
    auto w = t.gather_parameters();
    std::vector<double> first(w.size()), second(w.size());
    for (int step = 1; step <= 4; ++step) {
        CAPTURE(step);
        auto const images = made_up(24, static_cast<std::uint64_t>(step));
        gradient.load_parameters(w);
        gradient.step(images);
        t.step(images);
        auto const after = gradient.gather_parameters();
        double worst = 0;
        auto const now = t.gather_parameters();
        for (std::size_t i = 0; i < w.size(); ++i) {
            double const g = w[i] - after[i];
            formula(step, w[i], g, first[i], second[i]);
            if (std::abs(g) > 1e-6) worst = std::max(worst, std::abs(w[i] - now[i])); // else epsilon decides
        }
        CHECK(worst < tolerance);
        t.load_parameters(w); // which is no update, and leaves the state as it is
    }
}

template<class Device, class Network>
void adamw_follows_the_paper(double tolerance) {
    any_optimizer<adamw, Device, Network, precision<f64>> t(
        {.learning_rate = 0.125f, .beta1 = 0.75f, .beta2 = 0.875f, .weight_decay = 0.5f, .batch = 24, .seed = 5},
        {.devices = 1, .stages = 1});
    follows<Device, Network>(t, tolerance, [](int step, double& w, double g, double& m, double& v) {
        m = 0.75 * m + 0.25 * g;
        v = 0.875 * v + 0.125 * g * g;
        double const mean = m / (1 - std::pow(0.75, step)), square = v / (1 - std::pow(0.875, step));
        w = w * (1 - 0.125 * 0.5) - 0.125 * mean / (std::sqrt(square) + static_cast<double>(1e-8f));
    });
}

template<class Device, class Network>
void rmsprop_follows_its_formula(double tolerance) {
    any_optimizer<rmsprop_momentum, Device, Network, precision<f64>> t({.learning_rate = 0.125f,
                                                                        .smoothing = 0.75f,
                                                                        .epsilon = 0.25f,
                                                                        .momentum = 0.5f,
                                                                        .weight_decay = 0.25f,
                                                                        .batch = 24,
                                                                        .seed = 5},
                                                                       {.devices = 1, .stages = 1});
    follows<Device, Network>(t, tolerance, [](int, double& w, double g, double& v, double& b) {
        double const d = g + 0.25 * w;
        v = 0.75 * v + 0.25 * d * d;
        b = 0.5 * b + d / (std::sqrt(v) + 0.25);
        w -= 0.125 * b;
    });
}

template<class Device, class Network>
void adagrad_follows_its_formula(double tolerance) {
    any_optimizer<adagrad, Device, Network, precision<f64>> t({.learning_rate = 0.125f,
                                                               .rate_decay = 0.5f,
                                                               .initial_accumulator = 0.25f,
                                                               .epsilon = 0.25f,
                                                               .weight_decay = 0.25f,
                                                               .batch = 24,
                                                               .seed = 5},
                                                              {.devices = 1, .stages = 1});
    follows<Device, Network>(t, tolerance, [](int step, double& w, double g, double& v, double&) {
        double const d = g + 0.25 * w;
        v += d * d;
        w -= 0.125 / (1 + (step - 1) * 0.5) * d / (std::sqrt(0.25 + v) + 0.25);
    });
}

/// On any number of replicas and stages; and the state of each parameter, and the count of updates, are in the plan.
template<class Optimizer, class Device, class Network, class... Policies>
void has_one_devices_bits() {
    using trainer_t = any_optimizer<Optimizer, Device, Network, Policies...>;
    typename trainer_t::options const o{.learning_rate = 0.01f, .batch = 50, .seed = 5, .logical_shards = 6};
    trainer_t one(o, {.devices = 1, .stages = 1});
    auto const wanted = train(one);
    auto const parameters = one.plan().memory().parameters;
    CHECK(one.plan().memory().optimizer_state ==
          Optimizer::state_per_parameter * parameters + (detail::counts_updates<Optimizer> ? cache_line : 0));
    for (auto const& [devices, stages] : {std::pair{2, 1}, {3, 1}, {1, 2}, {2, 2}, {1, 3}}) {
        trainer_t t(o, {.devices = devices, .stages = stages});
        CAPTURE(t.devices());
        CHECK(train(t) == wanted);
    }
}

/// Devices that hold one copy of the weights have a slice of the state each.
template<class Optimizer, class Device, class Network>
void is_alike_with_weights_held_once() {
    using per_device_t = trainer<Network, cross_entropy, Optimizer, on<mesh<Device, dp<3>>>>;
    using once_t = trainer<Network, cross_entropy, Optimizer, on<mesh<Device, dp<3>>>, hold_weights<once>>;
    per_device_t apart({.learning_rate = 0.01f, .batch = 50});
    once_t together({.learning_rate = 0.01f, .batch = 50});
    CHECK(train(together) == train(apart));
}

} // namespace test_optimizers
