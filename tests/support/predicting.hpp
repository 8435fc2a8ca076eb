// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <doctest/doctest.h>
#include <support/networks.hpp>

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Predictions of trainers and models, on any kind of device.
namespace test_predicting {
using namespace trireme;
using test_networks::made_up;
using test_support::same_bits;

template<class Device, class Network, class... Policies>
using any_trainer = test_networks::any_stages<Device, Network, cross_entropy, sgd, Policies...>;
template<class Device, class Network, class... Policies>
using any_model =
    model<Network, on<mesh<Device, dp<dynamic>, pp<dynamic>>>, reproducible<fixed_tree, dynamic>, Policies...>;

template<class T>
std::vector<T> values_of(predictions<T> const& said) {
    return {said.values().begin(), said.values().end()};
}

/// A trainer predicts what it evaluates: the loss and the accuracy follow from the outputs.
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

/// Samples of two numbers, and of each `labels` targets, 0 or 1: a line that says them divides the plane.
template<std::size_t Labels>
struct labelled_plane {
    std::vector<float> inputs, targets;

    explicit labelled_plane(std::size_t n, std::uint64_t seed = 1) {
        random_stream const r(seed, random_purpose::user, 3);
        for (std::size_t i = 0; i < 2 * n; ++i) inputs.push_back(static_cast<float>(r.below(i, 200)) / 100 - 1);
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t k = 0; k < Labels; ++k)
                targets.push_back(inputs[2 * i] > 0.4f * static_cast<float>(k) - inputs[2 * i + 1] ? 1.0f : 0.0f);
    }
    samples_in_memory samples() const { return samples_in_memory(inputs, make_shape(2), targets, make_shape(Labels)); }
};

/// Logits of one label and of several are right or wrong: accuracy is counted as by hand, with the same bits on any
/// number of replicas and stages; reports tell it.
template<class Device, std::size_t Labels>
void logits_are_right_or_wrong() {
    CAPTURE(Labels);
    using net = network<input<2>, linear<8>, hyperbolic_tangent, linear<Labels>>;
    using t = test_networks::any_stages<Device, net, binary_cross_entropy, sgd, precision<f64>>;
    labelled_plane<Labels> const plane(67);
    auto const samples = plane.samples();
    std::vector<double> of_one;
    for (auto const& layout : {std::pair{1, 1}, {2, 1}, {3, 1}, {4, 1}, {1, 2}, {2, 2}}) {
        int const replicas = layout.first, stages = layout.second;
        CAPTURE(replicas);
        CAPTURE(stages);
        t many({.learning_rate = 1.0f, .batch = 67, .logical_shards = 12}, {.devices = replicas, .stages = stages});
        for (int i = 0; i < 8; ++i) many.step(samples);
        auto const e = many.evaluate(samples);
        auto const said = many.predict(samples);
        CHECK((said.meaning() == output_meaning{.logistic = true}));
        auto const values = values_of(said), p = said.probabilities();
        REQUIRE(values.size() == plane.targets.size());
        REQUIRE(p.size() == values.size());
        double right = 0, loss = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            bool const is = plane.targets[i] == 1;
            right += (values[i] > 0) == is ? 1 : 0;
            loss -= std::log(is ? p[i] : 1 - p[i]);
            CHECK(std::abs(p[i] - 1 / (1 + std::exp(-values[i]))) < 1e-12); // torch.sigmoid
        }
        auto const n = static_cast<double>(values.size());
        CHECK(e.accuracy == right / n);
        CHECK((e.accuracy > 0.6 && e.accuracy < 1)); // there is something to tell
        CHECK(e.loss == doctest::Approx(loss / n).epsilon(1e-11));
        std::vector<double> told{e.loss, e.accuracy};
        told.insert(told.end(), values.begin(), values.end());
        if (of_one.empty()) of_one = told;
        CHECK(same_bits(told, of_one));
        if constexpr (Labels == 1) {
            CHECK(said.classes() == 2);
            confusion_matrix const matrix(said, samples);
            CHECK(matrix.classes() == 2);
            CHECK(matrix.accuracy() == e.accuracy);
            CHECK(top_k_accuracy(said, samples, 1) == e.accuracy);
        }
        auto const epoch = many.train(training_set{samples, samples}, {.epochs = 1, .best_by = test_figure::accuracy});
        CHECK((epoch.best && !epoch.of_values && epoch.test.accuracy > 0.6));
        CHECK(to_string(epoch).find("test accuracy 0.") != std::string::npos);
    }
}

} // namespace test_predicting
