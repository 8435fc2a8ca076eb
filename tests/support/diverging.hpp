// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <doctest/doctest.h>
#include <support/compare.hpp>
#include <support/networks.hpp>

#include <trireme/trireme.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

// Trainings whose loss is no finite number in some step.
namespace test_diverging {
using namespace trireme;
using test_support::same_bits;

using table_network =
    network<input<6>, linear<16>, batch_norm<per_shard>, relu, linear<12>, hyperbolic_tangent, linear<3>>;
template<class Loss, class... Policies>
using any_trainer_with = test_networks::any_stages<host, table_network, Loss, adam, Policies...>;
template<class... Policies>
using any_trainer = any_trainer_with<mean_squared_error, Policies...>;

/// Samples of 6 numbers with 3 targets each; one target of sample `at` is `bad`.
struct table {
    std::vector<float> inputs, targets;

    explicit table(std::size_t n, std::size_t at = npos, float bad = 0) : inputs(6 * n), targets(3 * n) {
        for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>(i * 7 % 11) / 11;
        for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<float>(i % 5) / 5;
        if (at != npos) targets[3 * at + 1] = bad;
    }
    operator sample_set() const { return samples(); }
    samples_in_memory samples() const { return {inputs, make_shape(6), targets, make_shape(3)}; }
};

/// Squared errors, whose slope is no number where a target is above 90.
struct pitfall {
    static constexpr int operations = 3;
    template<class T>
    static T value(T x, T target) noexcept {
        return target > 90 ? T(1) : (x - target) * (x - target);
    }
    template<class T>
    static T slope(T x, T target) noexcept {
        return target > 90 ? std::numeric_limits<T>::quiet_NaN() : 2 * (x - target);
    }
};
using pitfalls = value_loss_of<pitfall>;

enum result { none, intact, changed };
/// `step`: gets the number of the step.
template<class F>
result divergence_of(F&& f, std::uint64_t* step = nullptr) {
    try {
        f();
    } catch (divergence_error const& e) {
        CHECK(!std::isfinite(e.loss()));
        CHECK(e.step() > 0);
        if (step != nullptr) *step = e.step();
        std::string const said = e.what();
        CHECK(said.find(e.loss() == e.loss() ? " is inf" : " is nan") != std::string::npos);
        CHECK(said.find(e.intact() ? "those of the step before" : "into a new trainer") != std::string::npos);
        return e.intact() ? intact : changed;
    }
    return none;
}

/// A step in the middle of a training, with one bad target in any of the shards; then the training goes on as one that
/// has never seen it.
template<class Trainer>
void leaves_all_as_it_was(int devices, int stages, std::size_t shards, float bad,
                          schedule_choice const& schedule = {}) {
    auto const made = [&] {
        return Trainer({.learning_rate = 0.01f, .batch = 24, .seed = 4, .logical_shards = shards},
                       {.devices = devices,
                        .stages = stages,
                        .micro_batches = stages == 1 || shards != 0 ? 0u : 3u,
                        .schedule = schedule});
    };
    auto t = made(), other = made();
    table const good(24);
    t.step(good);
    other.step(good);
    auto const weights = t.gather_parameters(), statistics = t.gather_buffers();
    for (std::size_t const at : {0u, 13u, 23u}) {
        CHECK(divergence_of([&] { t.step(table(24, at, bad)); }) == intact);
        CHECK(same_bits(t.gather_parameters(), weights));
        CHECK(same_bits(t.gather_buffers(), statistics));
    }
    for (int k = 0; k < 2; ++k) CHECK(t.step(good).loss == other.step(good).loss);
    CHECK(same_bits(t.gather_parameters(), other.gather_parameters())); // adam's means and count, too
}

template<class Trainer>
void ends_an_epoch(int devices, int stages, std::size_t shards, bool leaves_weights) {
    Trainer t({.learning_rate = 0.01f, .batch = 24, .logical_shards = shards}, {.devices = devices, .stages = stages});
    std::size_t told = 0;
    std::uint64_t step = 0;
    auto const count = [&](progress_report const& p) { told = p.batch; };
    table const all(240, 100, std::numeric_limits<float>::infinity()), few(24);
    struct {
        samples_in_memory train, test;
    } const both{all.samples(), few.samples()};
    CHECK(divergence_of([&] { t.train(both, {.epochs = 1}, count); }, &step) == (leaves_weights ? intact : changed));
    CHECK(step < 9); // of ten, so that two more would have come
    CHECK(told == step);
    CHECK(t.steps() <= step + 1); // which had begun when its loss was told
    auto const weights = t.gather_parameters();
    CHECK(std::ranges::all_of(weights, [](float w) { return std::isfinite(w); }) == leaves_weights);
    if (leaves_weights) CHECK(std::isfinite(t.step(few).loss)); // it works on
}

/// A gradient that is not finite, of a finite loss, is no reason to skip a step: the weights have it, and the next
/// loss.
template<class Trainer>
void shows_in_the_next_loss(int devices, int stages, std::size_t shards, schedule_choice const& schedule = {}) {
    for (std::size_t const at : {0u, 13u, 23u}) {
        Trainer t({.learning_rate = 0.01f, .batch = 24, .seed = 4, .logical_shards = shards},
                  {.devices = devices,
                   .stages = stages,
                   .micro_batches = stages == 1 || shards != 0 ? 0u : 3u,
                   .schedule = schedule});
        table const good(24);
        t.step(good);
        CHECK(std::isfinite(t.step(table(24, at, 99)).loss));
        std::size_t finite = 0;
        for (float const w : t.gather_parameters()) finite += std::isfinite(w) ? 1 : 0;
        CHECK(finite < Trainer::network_type::parameters / 2);
        CHECK_FALSE(std::isfinite(t.gather_parameters().front()));
        CHECK_FALSE(std::isfinite(*(t.gather_parameters().end() - 2))); // the bias of the value that has no slope
        CHECK(divergence_of([&] { t.step(good); }) == intact);
    }
}

} // namespace test_diverging
