// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/networks.hpp>
#include <trainer/pipelines.hpp>

#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <vector>

// Trainings with adam and adamw on any devices, and what they must be equal to.
namespace test_adam {
using namespace trireme;
using test_networks::made_up;
using test_pipelines::train;

template<class Optimizer, class Device, class Network, class... Policies>
using any_adam = trainer<Network, cross_entropy, Optimizer, on<mesh<Device, dp<dynamic>, pp<dynamic>>>,
                         reproducible<fixed_tree, dynamic>, Policies...>;

/// Several steps are those that the paper's formulas make of the gradients, which a trainer with sgd tells, from the
/// same weights.
template<class Device, class Network>
void follows_the_paper(double tolerance) {
    using plain = trainer<Network, cross_entropy, sgd, on<mesh<Device, dp<dynamic>>>, precision<f64>>;
    using trainer_t = any_adam<adamw, Device, Network, precision<f64>>;
    plain gradient({.learning_rate = 1.0f, .batch = 24, .seed = 5}, {.devices = 1});
    trainer_t t(
        {.learning_rate = 0.125f, .beta1 = 0.75f, .beta2 = 0.875f, .weight_decay = 0.5f, .batch = 24, .seed = 5},
        {.devices = 1, .stages = 1});
    auto w = t.gather_parameters();
    std::vector<double> m(w.size()), v(w.size());
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
            m[i] = 0.75 * m[i] + 0.25 * g;
            v[i] = 0.875 * v[i] + 0.125 * g * g;
            double const mean = m[i] / (1 - std::pow(0.75, step)), square = v[i] / (1 - std::pow(0.875, step));
            w[i] = w[i] * (1 - 0.125 * 0.5) - 0.125 * mean / (std::sqrt(square) + static_cast<double>(1e-8f));
            if (std::abs(g) > 1e-6) worst = std::max(worst, std::abs(w[i] - now[i])); // else epsilon decides
        }
        CHECK(worst < tolerance);
        t.load_parameters(w); // which is no update, and leaves the means as they are
    }
}

/// On any number of replicas and stages; and two numbers of a parameter, and the count, are in the plan.
template<class Optimizer, class Device, class Network, class... Policies>
void has_one_devices_bits() {
    using trainer_t = any_adam<Optimizer, Device, Network, Policies...>;
    typename trainer_t::options const o{.learning_rate = 0.01f, .batch = 50, .seed = 5, .logical_shards = 6};
    trainer_t one(o, {.devices = 1, .stages = 1});
    auto const wanted = train(one);
    auto const parameters = one.plan().memory().parameters;
    CHECK(one.plan().memory().optimizer_state == 2 * parameters + cache_line);
    for (auto const& [devices, stages] : {std::pair{2, 1}, {3, 1}, {1, 2}, {2, 2}, {1, 3}}) {
        trainer_t t(o, {.devices = devices, .stages = stages});
        CAPTURE(t.devices());
        CHECK(train(t) == wanted);
    }
}

} // namespace test_adam
