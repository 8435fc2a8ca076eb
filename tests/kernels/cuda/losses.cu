// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Losses with shares of classes, losses of values, and what layers add to losses, on GPUs against the textbook loops,
// in double.

#include <trireme/device/cuda/device.hpp>
#include <trireme/kernels/blocks/activation.hpp>
#include <trireme/kernels/blocks/activity_penalty.hpp>
#include <trireme/kernels/blocks/soft_cross_entropy.hpp>
#include <trireme/kernels/blocks/value_loss.hpp>
#include <trireme/kernels/loss_functions.hpp>
#include <trireme/kernels/reference/activity_penalty.hpp>
#include <trireme/kernels/reference/soft_cross_entropy.hpp>
#include <trireme/kernels/reference/value_loss.hpp>

#include "on_gpu.hpp"
#include <kernels/cases.hpp>
#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

using namespace trireme;
using kernel_cases::some_weights;
using on_gpu::allowed;
using on_gpu::array;
using on_gpu::distance;
using on_gpu::widened;

namespace cuda_losses_test {
namespace {

template<class Targets, std::size_t Classes, class T>
void soft_cross_entropy_matches() {
    CAPTURE(Classes);
    CAPTURE(sizeof(T));
    CAPTURE(Targets::of_each);
    constexpr std::size_t samples = 130;
    auto logits = numbers::uniform<T>(0, samples * Classes, 8);
    auto const weight = numbers::uniform<T>(1, samples);
    std::vector<int> labels(samples);
    for (std::size_t i = 0; i < samples; ++i) {
        labels[i] = static_cast<int>(i * 7919 % Classes);
        if (i % 2 == 0) logits[i * Classes + static_cast<std::size_t>(labels[i])] = T(9);
        if (i % 5 == 0 && !Targets::counts(-100)) labels[i] = -100;
    }
    auto const wide_logits = widened(logits), wide_weight = widened(weight);
    std::vector<double> gradient(logits.size()), loss(samples), score(samples);
    std::vector<int> correct(samples);
    for (std::size_t i = 0; i < samples; ++i) {
        soft_cross_entropy_gradient<Targets, Classes, 1>(reference{}, &wide_logits[i * Classes], &labels[i],
                                                         &wide_weight[i], &gradient[i * Classes], &loss[i]);
        soft_cross_entropy<Targets, Classes, 1>(reference{}, &wide_logits[i * Classes], &labels[i], &score[i],
                                                &correct[i]);
    }

    on_gpu::rank r;
    auto const k = r.policy<cuda_kernels>(samples);
    array<T> const at_logits(r, logits), at_weight(r, weight), at_dlogits(r, logits), at_loss(r, weight);
    array<T> const at_score(r, weight);
    array<int> const at_labels(r, labels), at_correct(r, std::vector<int>(samples, -1));
    auto const *x = at_logits.data(), *w = at_weight.data();
    soft_cross_entropy_gradient<Targets, Classes, 1>(k, x, at_labels.data(), w, at_dlogits.data(), at_loss.data());
    soft_cross_entropy<Targets, Classes, 1>(k, x, at_labels.data(), at_score.data(), at_correct.data());
    CHECK(distance(at_dlogits.read(), gradient) < allowed<T>);
    CHECK(distance(at_loss.read(), loss) < allowed<T>);
    CHECK(distance(at_score.read(), loss) < allowed<T>);
    CHECK(at_correct.read() == correct);
}

template<std::size_t Classes, class T>
void all_targets() {
    constexpr int none = -1;
    soft_cross_entropy_matches<soft_targets<Classes, 10, void, none>, Classes, T>();
    soft_cross_entropy_matches<soft_targets<Classes, 0, void, -100>, Classes, T>();
    soft_cross_entropy_matches<soft_targets<Classes, 10, some_weights<Classes>, -100>, Classes, T>();
}

template<class F, std::size_t Values, class T>
void value_loss_matches() {
    CAPTURE(Values);
    CAPTURE(sizeof(T));
    constexpr std::size_t samples = 130;
    auto const x = numbers::uniform<T>(0, samples * Values, 4), targets = numbers::uniform<T>(1, samples * Values);
    auto const weight = numbers::uniform<T>(2, samples);
    auto const wide_x = widened(x), wide_targets = widened(targets), wide_weight = widened(weight);
    std::vector<double> gradient(x.size()), loss(samples);
    for (std::size_t i = 0; i < samples; ++i)
        value_loss_gradient<F, Values, 1>(reference{}, &wide_x[i * Values], &wide_targets[i * Values], &wide_weight[i],
                                          &gradient[i * Values], &loss[i]);

    on_gpu::rank r;
    auto const k = r.policy<cuda_kernels>(samples);
    array<T> const at_x(r, x), at_targets(r, targets), at_weight(r, weight), at_dx(r, x), at_loss(r, weight);
    array<T> const at_score(r, weight);
    T const *from = at_x.data(), *wanted = at_targets.data(), *w = at_weight.data();
    value_loss_gradient<F, Values, 1>(k, from, wanted, w, at_dx.data(), at_loss.data());
    value_loss<F, Values, 1>(k, from, wanted, at_score.data());
    CHECK(distance(at_dx.read(), gradient) < allowed<T>);
    CHECK(distance(at_loss.read(), loss) < allowed<T>);
    CHECK(distance(at_score.read(), loss) < allowed<T>);
}

template<class F, class T>
void all_values() {
    value_loss_matches<F, 1, T>();
    value_loss_matches<F, 100, T>();
}

template<std::size_t Size, class T>
void penalty_matches() {
    CAPTURE(Size);
    CAPTURE(sizeof(T));
    constexpr std::size_t samples = 130;
    auto const x = numbers::uniform<T>(0, samples * Size, 4), dy = numbers::uniform<T>(1, samples * Size);
    auto const weight = numbers::uniform<T>(2, samples);
    auto const wide_x = widened(x), wide_dy = widened(dy), wide_weight = widened(weight);
    std::vector<double> y(x.size()), gradient(x.size()), loss(samples);
    for (std::size_t i = 0; i < samples; ++i) {
        activity_penalty_forward<Size, 1>(reference{}, &wide_x[i * Size], 0.25, &y[i * Size], &loss[i]);
        activity_penalty_backward_input<Size, 1>(reference{}, &wide_x[i * Size], &wide_dy[i * Size], &wide_weight[i],
                                                 0.25, &gradient[i * Size]);
    }

    on_gpu::rank r;
    auto const k = r.policy<cuda_kernels>(samples);
    array<T> const at_x(r, x), at_dy(r, dy), at_weight(r, weight), at_y(r, dy), at_dx(r, x), at_loss(r, weight);
    T const *from = at_x.data(), *by = at_dy.data(), *w = at_weight.data();
    activity_penalty_forward<Size, 1>(k, from, T(0.25), at_y.data(), at_loss.data());
    activity_penalty_backward_input<Size, 1>(k, from, by, w, T(0.25), at_dx.data());
    CHECK(at_y.read() == x);
    CHECK(distance(at_loss.read(), loss) < allowed<T>);
    CHECK(distance(at_dx.read(), gradient) < allowed<T>);
}

} // namespace

TEST_SUITE("cuda/losses") {
    TEST_CASE("penalties") {
        penalty_matches<10, float>();
        penalty_matches<600, float>();
        penalty_matches<600, double>();
    }
    TEST_CASE("softmax cross-entropy with shares of classes") {
        all_targets<10, float>();
        all_targets<1000, float>();
        all_targets<1000, double>();
    }
    TEST_CASE("losses of values") {
        all_values<squared_error_function, float>();
        all_values<squared_error_function, double>();
        all_values<logistic_error_function, float>();
        all_values<logistic_error_function, double>();
    }
}

} // namespace cuda_losses_test
