// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/blocks/sgd.hpp>
#include <trireme/kernels/reference/sgd.hpp>

#include <kernels/blocks/rig.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace device_blocks_sgd_test {
using namespace trireme;
using namespace blocks_test;

namespace {

/// A step of rule 0 (plain), 1 (momentum) or 2 (nesterov) on w[n] and velocity[n], one behind the other.
template<class Policy, class T, class Numbers>
void step(int rule, Policy const& k, std::vector<T>& state, std::vector<T> const& g, Numbers numbers) {
    T *const w = state.data(), *const velocity = w + g.size();
    if (rule == 0) sgd_update(k, w, g.data(), g.size(), numbers);
    if (rule == 1) sgd_momentum_update(k, w, velocity, g.data(), g.size(), numbers);
    if (rule == 2) sgd_nesterov_update(k, w, velocity, g.data(), g.size(), numbers);
}

template<class T>
void blocks_equal_reference(std::size_t n) {
    using number = accumulate_t<T>;
    CAPTURE(n);
    CAPTURE(sizeof(T));
    auto const g = uniform<T>(0, n);
    for (int const rule : {0, 1, 2}) {
        CAPTURE(rule);
        auto state = uniform<T>(1, 2 * n);
        auto expected = wide(state);
        sgd_numbers<number> numbers{};
        CHECK(same_in_every_order(3, 0, state, [&](rehearsal_kernels const& k) {
            numbers = {};
            step(rule, k, state, g, &numbers);
            numbers = {number(0.3), number(0.01), number(0.9)}; // they are read when the step is done
        }));
        step(rule, reference{}, expected, wide(g), numbers);
        CHECK(apart(state, expected, 4) <= 1);
    }
}

} // namespace

TEST_SUITE("kernels/blocks/sgd") {
    TEST_CASE("blocks equal the reference, with numbers that change after the call") {
        for (std::size_t const n : std::initializer_list<std::size_t>{0, 1, 3, 255, 256, 257, 1000}) {
            blocks_equal_reference<float>(n);
            blocks_equal_reference<double>(n);
            blocks_equal_reference<bf16>(n);
        }
    }
}

} // namespace device_blocks_sgd_test
