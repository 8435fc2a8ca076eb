// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/floats.hpp>
#include <support/networks.hpp>

#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Trainings whose learning rate changes from step to step.
namespace test_rates {
using namespace trireme;
using test_networks::made_up;

/// A schedule in the options is the rate set by hand before each step, in single steps and in epochs.
template<class Device, class Network>
void is_the_rate_set_by_hand(int devices) {
    using trainer_t = trainer<Network, cross_entropy, sgd_momentum, on<mesh<Device, dp<dynamic>>>>;
    rate_schedule const r = cosine_rate{.steps = 9, .warm_up = 2, .least = 0.125};
    trainer_t scheduled({.learning_rate = 0.5f, .rate = r, .batch = 24}, {.devices = devices});
    trainer_t by_hand({.learning_rate = 0.5f, .batch = 24}, {.devices = devices});
    std::uint64_t step = 0;
    for (std::size_t const n : {24u, 7u, 60u}) { // the last one is larger than a batch
        scheduled.step(made_up(n, n));
        by_hand.set_learning_rate(static_cast<float>(0.5 * r.factor(step++)));
        by_hand.step(made_up(n, n));
        CHECK(scheduled.gather_parameters() == by_hand.gather_parameters());
    }
    scheduled.evaluate(made_up(24)); // which is no step
    scheduled.train({made_up(53), {}}, {.epochs = 1});
    for (std::size_t k = 0; k < 3; ++k) CHECK(r.factor(step + k) > r.factor(step + k + 1));
    CHECK(scheduled.current_options().learning_rate == 0.5f);
    trainer_t again({.learning_rate = 0.5f, .rate = r, .batch = 24}, {.devices = devices});
    for (std::size_t const n : {24u, 7u, 60u}) again.step(made_up(n, n));
    again.train({made_up(53), {}}, {.epochs = 1});
    CHECK(again.gather_parameters() == scheduled.gather_parameters());

    // a rate that ends at nothing leaves the weights as they are
    trainer_t ended({.learning_rate = 0.5f, .rate = cosine_rate{.steps = 2}, .batch = 24}, {.devices = devices});
    ended.step(made_up(24));
    ended.step(made_up(24));
    auto const before = ended.gather_parameters();
    ended.train({made_up(53), {}}, {.epochs = 1});
    CHECK(ended.gather_parameters() == before);
}

/// A rate for batches of 6 samples is four times as high for batches of 24, also in a step on fewer of them.
template<class Device, class Network>
void grows_with_the_batch() {
    using trainer_t = trainer<Network, cross_entropy, sgd, on<mesh<Device, dp<1>>>>;
    trainer_t scaled({.learning_rate = 0.125f, .rate = linear_scaling{.from = 6}, .batch = 24});
    trainer_t by_hand({.learning_rate = 0.5f, .batch = 24});
    for (std::size_t const n : {24u, 7u}) scaled.step(made_up(n, n)), by_hand.step(made_up(n, n));
    CHECK(scaled.gather_parameters() == by_hand.gather_parameters());
}

/// Rate schedules of every kind have their names beside them; they are for trainings of a few steps on batches of 24.
inline std::vector<std::pair<std::string, rate_schedule>> one_of_each_kind() {
    return {{"step_rate", step_rate{.every = 2, .by = 0.5}},
            {"cosine_rate", cosine_rate{.steps = 6, .warm_up = 2, .least = 0.125}},
            {"one_cycle_rate", one_cycle_rate{.steps = 6, .rising = 0.5}},
            {"warm_up_rate", warm_up_rate{.steps = 3}},
            {"linear_scaling", linear_scaling{.from = 6, .then = warm_up_rate{.steps = 2}}}};
}

/// Replicas and stages have the bits of one device whose rate is set by hand before each step.
template<class Device, class Network>
void has_one_devices_bits() {
    using trainer_t = trainer<Network, cross_entropy, sgd_momentum, on<mesh<Device, dp<dynamic>, pp<dynamic>>>,
                              reproducible<fixed_tree, 8>>;
    for (auto const& each : one_of_each_kind()) {
        CAPTURE(each.first);
        auto const& rate = each.second;
        std::vector<double> wanted;
        trainer_t by_hand({.learning_rate = 0.25f, .batch = 24, .seed = 5}, {.devices = 1, .stages = 1});
        for (std::uint64_t step = 0; step < 4; ++step) {
            by_hand.set_learning_rate(static_cast<float>(0.25 * rate.factor(step) * rate.factor_of_batch(24)));
            wanted.push_back(by_hand.step(made_up(step == 1 ? 5 : 24, step)).loss);
        }
        for (auto const& layout : {std::pair{1, 1}, {2, 1}, {3, 1}, {1, 2}, {1, 3}, {2, 2}}) {
            int const devices = layout.first, stages = layout.second;
            CAPTURE(devices);
            CAPTURE(stages);
            trainer_t t({.learning_rate = 0.25f, .rate = rate, .batch = 24, .seed = 5},
                        {.devices = devices, .stages = stages});
            std::vector<double> found;
            for (std::uint64_t step = 0; step < 4; ++step)
                found.push_back(t.step(made_up(step == 1 ? 5 : 24, step)).loss);
            CHECK(found == wanted);
            CHECK(t.gather_parameters() == by_hand.gather_parameters());
        }
    }
}

/// A schedule's rates are computed on the caller's thread, where accelerators are driven from it.
template<class Device, class Network>
void has_the_bits_of_default_floats() {
    using trainer_t = trainer<Network, cross_entropy, adamw, on<mesh<Device, dp<1>>>>;
    auto const trained = [] {
        trainer_t t({.learning_rate = 0.3f, .rate = cosine_rate{.steps = 40, .warm_up = 7, .least = 0.1}, .batch = 24});
        t.step(made_up(23));
        for (int k = 0; k < 3; ++k) t.step(made_up(29)); // larger than a batch
        return t.gather_parameters();
    };
    auto const wanted = trained();
    for (auto const which : all_other_floats()) {
        std::optional<in_other_floats> other(which);
        auto const found = trained();
        CHECK(other->holds());
        other.reset();
        CHECK(found == wanted);
    }
}

} // namespace test_rates
