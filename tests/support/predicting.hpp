// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <doctest/doctest.h>
#include <support/networks.hpp>

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

// Predictions of trainers and models, on any kind of device.
namespace test_predicting {
using namespace trireme;
using test_networks::made_up;
using test_support::same_bits;

template<class Device, class Network, class... Policies>
using any_trainer = trainer<Network, cross_entropy, sgd, on<mesh<Device, dp<dynamic>, pp<dynamic>>>,
                            reproducible<fixed_tree, dynamic>, Policies...>;
template<class Device, class Network, class... Policies>
using any_model =
    model<Network, on<mesh<Device, dp<dynamic>, pp<dynamic>>>, reproducible<fixed_tree, dynamic>, Policies...>;

template<class T>
std::vector<T> values_of(predictions<T> const& said) {
    return {said.values().begin(), said.values().end()};
}

/// What a trainer predicts is what it evaluates: the loss and the accuracy follow from the outputs.
template<class Trainer>
void agree(Trainer& t, labelled_images const& images, double tolerance) {
    auto const said = t.predict(images);
    auto const evaluated = t.evaluate(images);
    REQUIRE(said.size() == images.size());
    REQUIRE(said.classes() == 10);
    double loss = 0;
    std::size_t right = 0;
    auto const p = said.probabilities();
    for (std::size_t i = 0; i < said.size(); ++i) {
        loss -= std::log(static_cast<double>(p[10 * i + images.label(i)]));
        right += said.class_of(i) == images.label(i) ? 1 : 0;
    }
    auto const n = static_cast<double>(images.size());
    CHECK(loss / n == doctest::Approx(evaluated.loss).epsilon(tolerance));
    CHECK(static_cast<double>(right) / n == evaluated.accuracy);
    CHECK(top_k_accuracy(said, images, 1) == evaluated.accuracy);
}

/// On any number of replicas and stages outputs have the bits of one device, and so have a model's with these weights.
/// Training goes on as if nothing had been asked.
template<class Device, class Network, class... Policies>
void have_one_devices_bits(double tolerance) {
    using t = any_trainer<Device, Network, Policies...>;
    using m = any_model<Device, Network, Policies...>;
    auto const trained = made_up(48), asked = made_up(101, 3);
    t one({.learning_rate = 0.1f, .batch = 48, .logical_shards = 6});
    one.step(trained);
    agree(one, asked, tolerance);
    auto const wanted = values_of(one.predict(asked));
    auto const parameters = one.gather_parameters(), buffers = one.gather_buffers();
    std::vector<typename m::value_type> of_model; // within rounding: few samples may go other ways
    struct mesh_and_schedule {
        int replicas, stages;
        schedule_choice schedule = {};
    };
    for (auto const& layout :
         {mesh_and_schedule{1, 1}, {3, 1}, {1, 2}, {2, 3}, {1, 2, zero_bubble_v{}}, {2, 2, interleaved<2>{}}}) {
        int const replicas = layout.replicas, stages = layout.stages;
        auto const& schedule = layout.schedule;
        if (static_cast<std::size_t>(stages * schedule.chunks) > segments_of<Network>.count) continue;
        CAPTURE(replicas);
        CAPTURE(stages);
        CAPTURE(std::string(schedule.name));
        t many({.learning_rate = 0.1f, .batch = 48, .logical_shards = 6},
               {.devices = replicas, .stages = stages, .schedule = schedule});
        many.predict(asked);
        many.step(trained);
        CHECK(same_bits(values_of(many.predict(asked)), wanted));
        CHECK(same_bits(many.gather_parameters(), parameters));

        m alone({.batch = 48, .logical_shards = 6}, {.devices = replicas, .stages = stages, .schedule = schedule});
        alone.load_parameters(parameters);
        alone.load_buffers(buffers);
        auto const told = values_of(alone.predict(asked));
        if (of_model.empty()) of_model = told;
        CHECK(same_bits(told, of_model));
        CHECK(same_bits(values_of(alone.predict(made_up(101, 3))), of_model)); // again
        CHECK(test_support::apart(told, wanted) < tolerance);
        if (!Network::whole_shard) CHECK(same_bits(told, wanted));
    }
}

} // namespace test_predicting
