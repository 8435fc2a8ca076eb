// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/networks.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

// A network in six compositions as one would name them, against the bits of one device.
namespace test_compositions {
using namespace trireme;
using test_networks::made_up;

template<class Network, class T, class... Policies>
using composed = trainer<Network, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>, pp<dynamic>>>,
                         reproducible<fixed_tree, 8>, precision<T>, Policies...>;

/// The losses of some steps, two of them on fewer samples than a batch has, and what is learnt.
template<class Trainer>
std::vector<double> learnt(typename Trainer::run_options const& where, int steps) {
    Trainer t({.learning_rate = 0.05f, .batch = 16, .seed = 7}, where);
    std::vector<double> all;
    for (int k = 0; k < steps; ++k)
        all.push_back(t.step(made_up(k % 4 == 2 ? 11 : 16, static_cast<std::size_t>(k))).loss);
    for (double const loss : all) CHECK(std::isfinite(loss));
    all.push_back(t.evaluate(made_up(21, 5)).loss);
    for (auto const& some : {t.gather_parameters(), t.gather_buffers()})
        all.insert(all.end(), some.begin(), some.end());
    return all;
}

template<class Network, class T>
class compositions {
public:
    explicit compositions(int steps) : steps_(steps), wanted_(learnt<composed<Network, T>>({.devices = 1}, steps)) {}

    template<class... Policies>
    void has_its_bits(char const* name, int devices, int stages, schedule_choice const& schedule) const {
        CAPTURE(std::string(name));
        CHECK(learnt<composed<Network, T, Policies...>>({.devices = devices, .stages = stages, .schedule = schedule},
                                                        steps_) == wanted_);
    }

private:
    int steps_;
    std::vector<double> wanted_;
};

template<class Network, class T>
void six_compositions(int steps) {
    compositions<Network, T> const one_device(steps);
    one_device.template has_its_bits<>("data parallel", 2, 1, gpipe{});
    one_device.template has_its_bits<>("pipeline, one forward, one backward", 1, 3, one_f_one_b{});
    one_device.template has_its_bits<accumulate<2>>("pipeline, all forward, in two parts", 1, 2, gpipe{});
    one_device.template has_its_bits<recompute<all>>("a V without bubbles, recomputed", 1, 2, zero_bubble_v{});
    one_device.template has_its_bits<>("hybrid, two stages a device", 2, 2, interleaved<2>{});
    one_device.template has_its_bits<hold_weights<once>>("hybrid, halves, weights held once", 2, 2, zero_bubble_h1{});
}

} // namespace test_compositions
