// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/compare.hpp>
#include <support/networks.hpp>
#include <support/tying.hpp>

#include <trireme/checkpoints.hpp>

#include <doctest/doctest.h>
#include <support/files.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// Trainings that are saved, and go on elsewhere.
namespace test_going_on {
using namespace trireme;
using test_networks::made_up;
using test_networks::same_bits;

/// A trainer on any devices and stages. Its network has all that outlasts a step: tied rows, running statistics,
/// dropout.
template<class Device, class Optimizer, class... Policies>
using any_trainer = test_networks::any_stages<Device, test_tying::several, cross_entropy, Optimizer, Policies...>;

struct place {
    int devices = 1, stages = 1;
};
template<class Trainer>
Trainer at(place where, std::size_t logical_shards = 8) {
    return Trainer({.learning_rate = 0.01f, .batch = 40, .seed = 3, .logical_shards = logical_shards},
                   {.devices = where.devices, .stages = where.stages});
}

template<class T>
struct history {
    std::vector<double> told; ///< losses of steps, of epochs, of tests
    std::vector<T> numbers;   ///< parameters and buffers in the end
    bool operator==(history const& other) const {
        return same_bits(told, other.told) && same_bits(numbers, other.numbers);
    }
};

/// Two steps and an epoch with a short last batch.
template<class Trainer>
history<typename Trainer::value_type> train_on(Trainer& t) {
    history<typename Trainer::value_type> h;
    for (int i = 0; i < 2; ++i) h.told.push_back(t.step(made_up(40, 1 + t.steps())).loss);
    auto const images = made_up(100, 7), test = made_up(30, 8);
    for (auto const& epoch : t.fit({images, test}, {.epochs = 1}))
        h.told.insert(h.told.end(), {epoch.loss, epoch.test.loss});
    h.numbers = t.gather_parameters();
    auto const buffers = t.gather_buffers();
    h.numbers.insert(h.numbers.end(), buffers.begin(), buffers.end());
    return h;
}

/// A training on one device, in two parts; the learning rate changes between them.
template<class Trainer>
history<typename Trainer::value_type> uninterrupted(place where = {}, std::size_t logical_shards = 8) {
    auto t = at<Trainer>(where, logical_shards);
    train_on(t);
    t.set_learning_rate(0.02f);
    return train_on(t);
}
/// Saves the first part in `folder`.
template<class Trainer>
void begin_in(std::string const& folder, place where, std::size_t logical_shards = 8) {
    auto t = at<Trainer>(where, logical_shards);
    train_on(t);
    t.set_learning_rate(0.02f);
    save_checkpoint(t, folder, {{"word", "kept"}});
}
template<class Trainer>
history<typename Trainer::value_type> go_on_from(std::string const& folder, place where,
                                                 std::size_t logical_shards = 8) {
    auto t = at<Trainer>(where, logical_shards);
    t.step(made_up(40, 99)); // whatever it has done before
    auto const m = load_checkpoint(t, folder);
    CHECK(m.notes.at("word") == "kept");
    CHECK(t.steps() == m.steps);
    CHECK(t.epochs() == 1);
    auto const h = train_on(t);
    CHECK(t.steps() == m.steps + 5);
    return h;
}

/// The bits of a training that goes on are those of one that was not interrupted, wherever its parts are made.
template<class Trainer>
void goes_on_anywhere(std::vector<std::pair<place, place>> const& moves) {
    auto const wanted = uninterrupted<Trainer>();
    files::folder const folder;
    for (auto const& move : moves) {
        place const from = move.first, to = move.second;
        CAPTURE(from.devices);
        CAPTURE(from.stages);
        CAPTURE(to.devices);
        CAPTURE(to.stages);
        begin_in<Trainer>(folder.path("run"), from);
        CHECK(go_on_from<Trainer>(folder.path("run"), to) == wanted);
    }
}

} // namespace test_going_on
