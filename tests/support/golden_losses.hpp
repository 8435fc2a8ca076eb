// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/golden.hpp>
#include <support/hash.hpp>

#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <utility>
#include <vector>

// Trainings that begin with the parameters of a golden run and have its losses.
namespace trireme_golden {

/// The images that golden runs are trained on.
inline trireme::labelled_images const& training_images() {
    static auto const data = trireme::fashion_mnist::load();
    return data.train;
}

/// A trainer's losses are PyTorch's in float64, one for each step from golden parameters on; `tolerance` is relative.
/// `samples(k)` are those of step k.
template<class Trainer, class Samples>
void has_losses(Trainer& t, std::vector<double> const& torch, double tolerance, Samples const& samples) {
    CAPTURE(t.devices());
    t.load_parameters(parameters<typename Trainer::network_type, typename Trainer::value_type>());
    for (std::size_t k = 0; k < torch.size(); ++k) {
        CAPTURE(k);
        CHECK(t.step(samples(k)).loss == doctest::Approx(torch[k]).epsilon(tolerance));
    }
}

/// A run on images: its first `steps` steps, or all, of which each takes the next images.
template<class Trainer>
void has_losses(Trainer& t, file const& run, double tolerance, std::size_t steps = trireme::npos) {
    auto const sizes = run.integers("batch_sizes");
    auto torch = run.numbers("loss_f64");
    REQUIRE(torch.size() == sizes.size());
    if (steps < torch.size()) torch.resize(steps);
    std::size_t first = 0;
    has_losses(t, torch, tolerance, [&](std::size_t k) {
        auto const n = static_cast<std::size_t>(sizes[k]);
        return training_images().take(std::exchange(first, first + n), n);
    });
}

} // namespace trireme_golden
