// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/kernels/blocks/adagrad.hpp>
#include <trireme/kernels/blocks/adam.hpp>
#include <trireme/kernels/blocks/gradient_norm.hpp>
#include <trireme/kernels/blocks/rmsprop.hpp>
#include <trireme/kernels/reference/adagrad.hpp>
#include <trireme/kernels/reference/adam.hpp>
#include <trireme/kernels/reference/gradient_norm.hpp>
#include <trireme/kernels/reference/rmsprop.hpp>

#include <kernels/blocks/rig.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace device_blocks_updates_test {
using namespace trireme;
using namespace blocks_test;

namespace {

/// w, the means of the gradients, and those of their squares, one behind the other; the numbers and the count are read
/// when the step is done.
template<bool Decoupled, class T>
void adam_equals_reference(std::size_t n) {
    CAPTURE(n);
    auto const g = uniform<T>(0, n);
    auto state = uniform<T>(1, 3 * n);
    for (std::size_t i = 2 * n; i < 3 * n; ++i) state[i] = static_cast<T>(state[i] * state[i]);
    auto expected = wide(state);
    adam_numbers<T> k{};
    std::uint64_t made = 0;
    CHECK(same_in_every_order(3, 0, state, [&](rehearsal_kernels const& policy) {
        k = {}, made = 0;
        adam_update<Decoupled>(policy, state.data(), state.data() + n, state.data() + 2 * n, g.data(), n, &k, &made);
        k = {T(0.1), T(0.01), T(0.9), T(0.95), T(1e-6)}, made = 3;
    }));
    auto const wide_g = wide(g);
    adam_update<Decoupled>(reference{}, expected.data(), expected.data() + n, expected.data() + 2 * n, wide_g.data(), n,
                           k, made);
    CHECK(apart(state, expected, 16) <= 1);
}

/// w, the means of the gradients' squares, and the velocities, likewise.
template<bool Momentum, class T>
void rmsprop_equals_reference(std::size_t n) {
    CAPTURE(n);
    auto const g = uniform<T>(0, n);
    auto state = uniform<T>(1, 3 * n);
    for (std::size_t i = n; i < 2 * n; ++i) state[i] = static_cast<T>(state[i] * state[i]);
    auto expected = wide(state);
    rmsprop_numbers<T> k{};
    CHECK(same_in_every_order(3, 0, state, [&](rehearsal_kernels const& policy) {
        k = {};
        rmsprop_update<Momentum>(policy, state.data(), state.data() + n, state.data() + 2 * n, g.data(), n, &k);
        k = {T(0.1), T(0.01), T(0.9), T(1e-2), T(0.8)};
    }));
    auto const wide_g = wide(g);
    rmsprop_update<Momentum>(reference{}, expected.data(), expected.data() + n, expected.data() + 2 * n, wide_g.data(),
                             n, k);
    CHECK(apart(state, expected, 16) <= 1);
}

/// w, and the sums of the gradients' squares.
template<class T>
void adagrad_equals_reference(std::size_t n) {
    CAPTURE(n);
    auto const g = uniform<T>(0, n);
    auto state = uniform<T>(1, 2 * n);
    for (std::size_t i = n; i < 2 * n; ++i) state[i] = static_cast<T>(state[i] * state[i]);
    auto expected = wide(state);
    adagrad_numbers<T> k{};
    std::uint64_t made = 0;
    CHECK(same_in_every_order(3, 0, state, [&](rehearsal_kernels const& policy) {
        k = {}, made = 0;
        adagrad_update(policy, state.data(), state.data() + n, g.data(), n, &k, &made);
        k = {T(0.1), T(0.01), T(0.25), T(0.5), T(1e-2)}, made = 3;
    }));
    auto const wide_g = wide(g);
    adagrad_update(reference{}, expected.data(), expected.data() + n, wide_g.data(), n, k, made);
    CHECK(apart(state, expected, 16) <= 1);
}

template<class T>
void norms_equal_reference() {
    std::uint32_t const n = 1000;
    auto g = uniform<T>(0, n);
    auto const before = wide(g);
    std::vector<gradient_run> const runs{{0, 600}, {600, 1}, {601, 399}};
    std::vector<double> sums(3);
    measured_norm found;
    double most = 0;
    CHECK(same_in_every_order(3, 0, g, [&](rehearsal_kernels const& policy) {
        most = 0;
        sums_of_squares(policy, static_cast<T const*>(g.data()), runs.data(), runs.size(), sums.data());
        norm_of_squares(policy, sums.data(), runs.size(), &most, &found);
        clip_values(policy, g.data(), &found, n);
        most = 0.5;
    }));
    double const norm = std::sqrt(sum_of_squares(reference{}, before.data(), n));
    CHECK(found.norm == doctest::Approx(norm).epsilon(1e-13));
    CHECK(sums[1] == static_cast<double>(before[600]) * static_cast<double>(before[600]));
    auto clipped = before;
    scale_values(reference{}, clipped.data(), static_cast<T>(0.5 / (norm + 1e-6)), n);
    CHECK(apart(g, clipped, 4) <= 1);
}

} // namespace

TEST_SUITE("kernels/blocks/updates") {
    TEST_CASE("runs of gradients may lie behind 2^32 parameters") {
        constexpr std::uint64_t far = (std::uint64_t{1} << 32) + 5;
        CHECK(gradient_run{far, 1}.first == far);
    }
    TEST_CASE("adam and adamw equal the reference, with numbers that change after the call") {
        for (std::size_t const n : std::initializer_list<std::size_t>{0, 1, 257, 1000}) {
            adam_equals_reference<false, float>(n);
            adam_equals_reference<false, double>(n);
            adam_equals_reference<true, float>(n);
            adam_equals_reference<true, double>(n);
        }
    }
    TEST_CASE("rmsprop and adagrad equal the reference, with numbers that change after the call") {
        for (std::size_t const n : std::initializer_list<std::size_t>{0, 1, 257, 1000}) {
            rmsprop_equals_reference<false, float>(n);
            rmsprop_equals_reference<false, double>(n);
            rmsprop_equals_reference<true, float>(n);
            rmsprop_equals_reference<true, double>(n);
            adagrad_equals_reference<float>(n);
            adagrad_equals_reference<double>(n);
        }
    }
    TEST_CASE("norms equal the reference, and what they clip") {
        norms_equal_reference<float>();
        norms_equal_reference<double>();
    }
}

} // namespace device_blocks_updates_test
