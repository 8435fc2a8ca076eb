// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/reference.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

// A training small enough for families of kernels that have few kernels: those of linear, relu, cross_entropy and sgd.

namespace kernel_training {
using namespace trireme;

using net = network<input<4>, linear<5>, relu, linear<3>>;

struct samples {
    std::vector<float> numbers;
    std::vector<int> classes;

    explicit samples(int count = 25) {
        for (int i = 0; i < count; ++i) {
            for (int k = 0; k < 4; ++k) numbers.push_back(static_cast<float>((i * (k + 2)) % 5) / 5);
            classes.push_back(i % 3);
        }
    }
    samples_in_memory all() const { return {numbers, make_shape(4), classes, 3}; }
};

/// The parameters after five steps, and the loss then.
template<class Kernels, class... Policies>
std::vector<float> trained() {
    samples const some;
    trainer<net, cross_entropy, sgd, kernels<Kernels>, Policies...> t{{.batch = 25, .seed = 4}};
    for (int i = 0; i < 5; ++i) t.step(some.all());
    auto numbers = t.gather_parameters();
    numbers.push_back(static_cast<float>(t.evaluate(some.all()).loss));
    return numbers;
}

inline void trains_as_the_reference(std::vector<float> const& numbers) {
    auto const expected = trained<reference>();
    REQUIRE(numbers.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(numbers[i] == doctest::Approx(expected[i]).epsilon(1e-4));
}

} // namespace kernel_training
