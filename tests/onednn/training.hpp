// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Short trainings that are compared with one another.

#include <doctest/doctest.h>

#include <trireme/trireme.hpp>

#include <cstddef>
#include <vector>

namespace onednn_test {

using namespace trireme;

inline labelled_images const& images() {
    static auto const data = fashion_mnist::load();
    return data.train;
}

struct outcome {
    std::vector<double> losses;
    double evaluated = 0;
    std::vector<float> parameters, buffers;
    bool operator==(outcome const&) const = default;
};

/// Steps on batches of 37, the last of which is short, and an evaluation on more images than a batch has.
template<class Trainer>
outcome trained(typename Trainer::options options, int steps = 6) {
    options.learning_rate = 0.02f;
    options.batch = 37;
    Trainer t(options);
    outcome r;
    for (std::size_t i = 0; i < static_cast<std::size_t>(steps); ++i)
        r.losses.push_back(t.step(images().take(37 * i, i % 3 == 2 ? 23 : 37)).loss);
    r.evaluated = t.evaluate(images().take(5000, 100)).loss;
    r.parameters.assign(t.parameters(t.rank()).begin(), t.parameters(t.rank()).end());
    r.buffers.assign(t.buffers(t.rank()).begin(), t.buffers(t.rank()).end());
    return r;
}

inline void check_near(outcome const& is, outcome const& wanted, double tolerance) {
    for (std::size_t i = 0; i < is.losses.size(); ++i) {
        CAPTURE(i);
        CHECK(is.losses[i] == doctest::Approx(wanted.losses[i]).epsilon(tolerance));
    }
    CHECK(is.evaluated == doctest::Approx(wanted.evaluated).epsilon(tolerance));
}

} // namespace onednn_test
