// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/networks.hpp>

#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Trainings in which some parameters do not decay.
namespace test_decay {
using namespace trireme;
using test_networks::made_up;

/// Convolutions without and with a bias, a norm, and a linear layer.
using with_norms = network<input<1, 28, 28>, avg_pool2d<4>, conv2d<3, kernel<3>>, batch_norm<per_shard>, relu, flatten,
                           linear<12>, hyperbolic_tangent, linear<10>>;

/// Several steps: each tensor is updated as by a trainer in which all parameters decay, or as by one in which none
/// does, bit for bit, and that as the rules say: `decays`, a letter per tensor.
template<class Device, class Optimizer, class... Which>
void follows_one_of_two(std::string const& decays, int devices) {
    using plain = trainer<with_norms, cross_entropy, Optimizer, on<mesh<Device, dp<dynamic>>>, precision<f64>>;
    using mixed = trainer<with_norms, cross_entropy, Optimizer, on<mesh<Device, dp<dynamic>>>, precision<f64>,
                          without_decay<Which...>>;
    float const decay = 0.25f;
    plain all({.learning_rate = 0.1f, .weight_decay = decay, .batch = 24, .seed = 5}, {.devices = devices});
    plain none({.learning_rate = 0.1f, .weight_decay = 0, .batch = 24, .seed = 5}, {.devices = devices});
    mixed some({.learning_rate = 0.1f, .weight_decay = decay, .batch = 24, .seed = 5}, {.devices = devices});
    CHECK(some.plan().memory().total() == all.plan().memory().total());
    auto const tensors = tensors_of<with_norms>();
    auto start = some.gather_parameters();
    for (double& number : start) // biases have something to lose, also one whose gradient cancels behind it
        if (number == 0) number = 0.125;
    some.load_parameters(start);
    for (std::uint64_t step = 1; step <= 3; ++step) {
        CAPTURE(step);
        auto const w = some.gather_parameters();
        all.load_parameters(w);
        none.load_parameters(w);
        auto const images = made_up(24, step);
        all.step(images), none.step(images), some.step(images);
        auto const a = all.gather_parameters(), n = none.gather_parameters(), s = some.gather_parameters();
        std::size_t tensor = 0;
        for (auto const& t : tensors) {
            if (t.is_buffer) continue;
            CAPTURE(t.name);
            auto const here = [&](std::vector<double> const& v) {
                auto const from = v.begin() + static_cast<std::ptrdiff_t>(t.first);
                return std::vector<double>(from, from + static_cast<std::ptrdiff_t>(t.shape.size()));
            };
            bool const decayed = decays.at(tensor++) == 'd';
            CHECK(here(s) == here(decayed ? a : n));
            CHECK(here(a) != here(n));
        }
        CHECK(tensor == decays.size());
    }
}

/// A rule of one's own takes matrices: parameters that a program names by their shape.
struct matrices {
    static constexpr bool takes(tensor_place const& t) { return t.tensor.shape.rank == 2; }
};

} // namespace test_decay
