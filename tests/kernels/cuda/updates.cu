// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Updates and norms of gradients on GPUs against the textbook loops, in double.

#include <trireme/device/cuda/device.hpp>
#include <trireme/kernels/blocks/adagrad.hpp>
#include <trireme/kernels/blocks/adam.hpp>
#include <trireme/kernels/blocks/gradient_norm.hpp>
#include <trireme/kernels/blocks/rmsprop.hpp>
#include <trireme/kernels/reference/adagrad.hpp>
#include <trireme/kernels/reference/adam.hpp>
#include <trireme/kernels/reference/gradient_norm.hpp>
#include <trireme/kernels/reference/rmsprop.hpp>

#include "on_gpu.hpp"
#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace trireme;
using on_gpu::allowed;
using on_gpu::array;
using on_gpu::distance;
using on_gpu::widened;

namespace cuda_updates_test {
namespace {

template<bool Decoupled, class T>
void adam_matches() {
    CAPTURE(Decoupled);
    constexpr std::size_t n = 10'007;
    auto const w = numbers::uniform<T>(0, n), g = numbers::uniform<T>(1, n), m = numbers::uniform<T>(2, n);
    std::vector<T> v = numbers::uniform<T>(3, n);
    for (auto& x : v) x = x * x;
    adam_numbers<T> const k{T(0.1), T(0.01), T(0.9), T(0.95), T(1e-6)};
    std::uint64_t const made = 3;

    on_gpu::rank r;
    auto const policy = r.policy<cuda_kernels>(5); // which is not asked for
    array<T> const at_w(r, w, 1), at_g(r, g, 1), at_m(r, m, 3), at_v(r, v, 2);
    array<adam_numbers<T>> const at_numbers(r, {k});
    array<std::uint64_t> const at_made(r, {made});
    adam_update<Decoupled>(policy, at_w.data(), at_m.data(), at_v.data(), static_cast<T const*>(at_g.data()), n,
                           at_numbers.data(), at_made.data());

    auto wide_w = widened(w), wide_m = widened(m), wide_v = widened(v);
    auto const wide_g = widened(g);
    adam_update<Decoupled>(reference{}, wide_w.data(), wide_m.data(), wide_v.data(), wide_g.data(), n,
                           adam_numbers<double>{k.rate, k.decay, k.beta1, k.beta2, k.epsilon}, made);
    CHECK(distance(at_w.read(), wide_w) < allowed<T>);
    CHECK(distance(at_m.read(), wide_m) < allowed<T>);
    CHECK(distance(at_v.read(), wide_v) < allowed<T>);
}

template<bool Momentum, class T>
void rmsprop_matches() {
    CAPTURE(Momentum);
    constexpr std::size_t n = 10'007;
    auto const w = numbers::uniform<T>(0, n), g = numbers::uniform<T>(1, n), b = numbers::uniform<T>(2, n);
    std::vector<T> v = numbers::uniform<T>(3, n);
    for (auto& x : v) x = x * x;
    rmsprop_numbers<T> const k{T(0.1), T(0.01), T(0.9), T(1e-2), T(0.8)};

    on_gpu::rank r;
    auto const policy = r.policy<cuda_kernels>(5);
    array<T> const at_w(r, w, 1), at_g(r, g, 1), at_v(r, v, 3), at_b(r, b, 2);
    array<rmsprop_numbers<T>> const at_numbers(r, {k});
    rmsprop_update<Momentum>(policy, at_w.data(), at_v.data(), at_b.data(), static_cast<T const*>(at_g.data()), n,
                             at_numbers.data());

    auto wide_w = widened(w), wide_v = widened(v), wide_b = widened(b);
    auto const wide_g = widened(g);
    rmsprop_update<Momentum>(reference{}, wide_w.data(), wide_v.data(), wide_b.data(), wide_g.data(), n,
                             rmsprop_numbers<double>{k.rate, k.decay, k.smoothing, k.epsilon, k.momentum});
    CHECK(distance(at_w.read(), wide_w) < allowed<T>);
    CHECK(distance(at_v.read(), wide_v) < allowed<T>);
    CHECK(distance(at_b.read(), wide_b) < allowed<T>);
}

template<class T>
void adagrad_matches() {
    constexpr std::size_t n = 10'007;
    auto const w = numbers::uniform<T>(0, n), g = numbers::uniform<T>(1, n);
    std::vector<T> v = numbers::uniform<T>(3, n);
    for (auto& x : v) x = x * x;
    adagrad_numbers<T> const k{T(0.1), T(0.01), T(0.25), T(0.5), T(1e-2)};
    std::uint64_t const made = 3;

    on_gpu::rank r;
    auto const policy = r.policy<cuda_kernels>(5);
    array<T> const at_w(r, w, 1), at_g(r, g, 1), at_v(r, v, 3);
    array<adagrad_numbers<T>> const at_numbers(r, {k});
    array<std::uint64_t> const at_made(r, {made});
    adagrad_update(policy, at_w.data(), at_v.data(), static_cast<T const*>(at_g.data()), n, at_numbers.data(),
                   at_made.data());

    auto wide_w = widened(w), wide_v = widened(v);
    auto const wide_g = widened(g);
    adagrad_update(reference{}, wide_w.data(), wide_v.data(), wide_g.data(), n,
                   adagrad_numbers<double>{k.rate, k.decay, k.rate_decay, k.initial, k.epsilon}, made);
    CHECK(distance(at_w.read(), wide_w) < allowed<T>);
    CHECK(distance(at_v.read(), wide_v) < allowed<T>);
}

template<class T>
void norms_match() {
    constexpr std::uint32_t n = 40'007;
    auto const g = numbers::uniform<T>(0, n);
    on_gpu::rank r;
    auto const policy = r.policy<cuda_kernels>(5);
    array<T> const at_g(r, g, 1);
    array<gradient_run> const runs(r, {{0, 16'384}, {16'384, 16'384}, {32'768, n - 32'768}});
    array<double> const sums(r, {0, 0, 0}), most(r, {0.5});
    array<measured_norm> const at(r, {measured_norm{}});
    sums_of_squares(policy, static_cast<T const*>(at_g.data()), runs.data(), 3, sums.data());
    norm_of_squares(policy, sums.data(), 3, most.data(), at.data());
    clip_values(policy, at_g.data(), at.data(), n);

    auto const wide = widened(g);
    double const norm = std::sqrt(sum_of_squares(reference{}, wide.data(), n));
    CHECK(at.read()[0].norm == doctest::Approx(norm).epsilon(1e-12));
    CHECK(at.read()[0].factor == doctest::Approx(0.5 / (norm + 1e-6)).epsilon(1e-12));
    auto clipped = wide;
    scale_values(reference{}, clipped.data(), 0.5 / (norm + 1e-6), n);
    CHECK(distance(at_g.read(), clipped) < allowed<T>);
}

} // namespace

TEST_SUITE("cuda/updates") {
    TEST_CASE("adam and adamw") {
        adam_matches<false, float>();
        adam_matches<false, double>();
        adam_matches<true, float>();
        adam_matches<true, double>();
    }
    TEST_CASE("rmsprop, with momentum and without, and adagrad") {
        rmsprop_matches<false, float>();
        rmsprop_matches<false, double>();
        rmsprop_matches<true, float>();
        rmsprop_matches<true, double>();
        adagrad_matches<float>();
        adagrad_matches<double>();
    }
    TEST_CASE("norms of gradients, and what they clip") {
        norms_match<float>();
        norms_match<double>();
    }
}

} // namespace cuda_updates_test
