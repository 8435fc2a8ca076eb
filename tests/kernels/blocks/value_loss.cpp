// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/blocks/value_loss.hpp>
#include <trireme/kernels/loss_functions.hpp>
#include <trireme/kernels/reference/value_loss.hpp>

#include <kernels/blocks/rig.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <vector>

namespace device_blocks_value_loss_test {
using namespace trireme;
using namespace blocks_test;

namespace {

/// `Stored`: of activations; targets and losses are `T`.
template<class F, std::size_t Values, class Stored, class T>
void blocks_equal_reference(std::size_t samples) {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(Values);
    CAPTURE(samples);
    CAPTURE(sizeof(Stored));
    CAPTURE(sizeof(T));
    auto const x = uniform<Stored>(0, Values * samples, 2);
    auto const targets = uniform<T>(1, Values * samples), weight = uniform<T>(2, samples);
    auto dx = unset<Stored>(Values * samples);
    auto losses = unset<T>(2 * samples); // with the gradient, and evaluated
    std::vector<int> right(samples, -1), expected_right = right;
    auto const work = [&](rehearsal_kernels const& k) {
        value_loss_gradient<F, Values, 1>(k, x.data(), targets.data(), weight.data(), dx.data(), losses.data());
        value_loss<F, Values, 1>(k, x.data(), targets.data(), losses.data() + samples, right.data());
    };
    CHECK(same_in_every_order(samples, 0, dx, work));
    CHECK(same_in_every_order(samples, 0, losses, work));
    CHECK(same_in_every_order(samples, 0, right, work));
    for (std::size_t i = 0; i < samples; ++i) CHECK(losses[samples + i] == losses[i]);

    auto const wide_x = wide(x);
    auto const wide_targets = wide(targets), wide_weight = wide(weight);
    auto expected = wide(unset<Stored>(Values * samples));
    auto expected_losses = wide(unset<T>(2 * samples));
    for (std::size_t n = 0; n < samples; ++n) {
        auto const at = n * Values;
        value_loss_gradient<F, Values, 1>(reference{}, wide_x.data() + at, wide_targets.data() + at,
                                          wide_weight.data() + n, expected.data() + at, expected_losses.data() + n);
        value_loss<F, Values, 1>(reference{}, wide_x.data() + at, wide_targets.data() + at,
                                 expected_losses.data() + samples + n, expected_right.data() + n);
    }
    CHECK(right == expected_right);
    CHECK(apart(dx, expected, 8) <= 1);
    CHECK(apart(losses, expected_losses, Values + 8) <= 1);
}

template<class F, class Stored, class T>
void all_values() {
    for (std::size_t const samples : std::initializer_list<std::size_t>{1, 2, 5, 33, 130}) {
        blocks_equal_reference<F, 10, Stored, T>(samples);
        blocks_equal_reference<F, 101, Stored, T>(samples);
    }
    blocks_equal_reference<F, 1, Stored, T>(70);
    blocks_equal_reference<F, 32, Stored, T>(3);
    blocks_equal_reference<F, 33, Stored, T>(3);
}

} // namespace

TEST_SUITE("kernels/blocks/value_loss") {
    TEST_CASE("blocks equal the reference") {
        all_values<squared_error_function, float, float>();
        all_values<squared_error_function, double, double>();
        all_values<squared_error_function, bf16, bf16>();
        all_values<squared_error_function, bf16, float>();
        all_values<logistic_error_function, float, float>();
        all_values<logistic_error_function, double, double>();
        all_values<logistic_error_function, bf16, bf16>();
        all_values<logistic_error_function, bf16, float>();
    }

    TEST_CASE("a NaN is not hidden, wherever it stands") {
        constexpr std::size_t values = 90;
        float const nan = std::numeric_limits<float>::quiet_NaN(), weight = 1;
        for (std::size_t const place : {std::size_t{0}, values / 2, values - 1}) {
            std::vector<float> x(values, 1.0f), dx(values), targets(values, 0.5f);
            x[place] = nan;
            float loss = 0, evaluated = 0;
            rehearse(0, 1, 0, [&](rehearsal_kernels const& k) {
                value_loss_gradient<logistic_error_function, values, 1>(k, x.data(), targets.data(), &weight, dx.data(),
                                                                        &loss);
                value_loss<squared_error_function, values, 1>(k, x.data(), targets.data(), &evaluated);
            });
            CHECK((std::isnan(loss) && std::isnan(evaluated) && std::isnan(dx[place]) && !std::isnan(dx[1])));
        }
    }
}

} // namespace device_blocks_value_loss_test
