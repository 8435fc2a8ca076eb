// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/loss_functions.hpp>
#include <trireme/kernels/portable/value_loss.hpp>
#include <trireme/kernels/reference/value_loss.hpp>

#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace device_value_loss_test {
using namespace trireme;

namespace {

template<class F, std::size_t Values, std::size_t Lanes, class T>
void portable_equals_reference() {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(Values);
    CAPTURE(Lanes);
    CAPTURE(sizeof(T));
    auto const x = numbers::uniform<T>(0, Values * Lanes, 2), targets = numbers::uniform<T>(1, Values * Lanes);
    auto const weight = numbers::uniform<T>(2, Lanes);
    auto dx = numbers::unset<T>(Values * Lanes), expected_dx = dx;
    auto loss = numbers::unset<T>(Lanes), expected_loss = loss, evaluated = loss, expected_evaluated = loss;
    value_loss_gradient<F, Values, Lanes>(portable{}, x.data(), targets.data(), weight.data(), dx.data(), loss.data());
    value_loss_gradient<F, Values, Lanes>(reference{}, x.data(), targets.data(), weight.data(), expected_dx.data(),
                                          expected_loss.data());
    std::vector<int> right(Lanes, -1), expected_right(Lanes, -1);
    value_loss<F, Values, Lanes>(portable{}, x.data(), targets.data(), evaluated.data(), right.data());
    value_loss<F, Values, Lanes>(reference{}, x.data(), targets.data(), expected_evaluated.data(),
                                 expected_right.data());
    CHECK(right == expected_right);
    CHECK((right[0] == -1) != is_of_logits<F>);
    CHECK(numbers::apart(dx, expected_dx, 8) <= 1);
    CHECK(numbers::apart(loss, expected_loss, Values + 8) <= 1);
    CHECK(numbers::apart(evaluated, expected_loss, Values + 8) <= 1);
    CHECK(numbers::apart(expected_evaluated, expected_loss, Values + 8) <= 1);
}

template<std::size_t Lanes, class T>
void all_values() {
    portable_equals_reference<squared_error_function, 1, Lanes, T>();
    portable_equals_reference<squared_error_function, 2, Lanes, T>();
    portable_equals_reference<squared_error_function, 10, Lanes, T>();
    portable_equals_reference<squared_error_function, 101, Lanes, T>();
    portable_equals_reference<logistic_error_function, 1, Lanes, T>();
    portable_equals_reference<logistic_error_function, 2, Lanes, T>();
    portable_equals_reference<logistic_error_function, 10, Lanes, T>();
    portable_equals_reference<logistic_error_function, 101, Lanes, T>();
}

template<class Policy>
void by_hand() {
    // two values of two samples, lanes innermost; the second is a copy that fills the granule
    std::vector<double> const x{3, 1, -1, 1}, targets{1, 1, 2, 0}, weight{0.5, 0};
    std::vector<double> dx(4, 9.0), loss(2, 9.0), evaluated(2, 9.0);
    value_loss_gradient<squared_error_function, 2, 2>(Policy{}, x.data(), targets.data(), weight.data(), dx.data(),
                                                      loss.data());
    CHECK(loss == std::vector<double>{(4 + 9) / 2.0, 0.5});
    CHECK(dx == std::vector<double>{0.5 * 2 * 2 / 2, 0, 0.5 * 2 * -3 / 2, 0});
    value_loss<squared_error_function, 2, 2>(Policy{}, x.data(), targets.data(), evaluated.data());
    CHECK(evaluated == loss);

    double const third = std::log(3.0); // p = 3/4, and 1/4 of its negative
    std::vector<double> const logits{third, -third, 0, third}, wanted{1, 0.5, 0, 0};
    value_loss_gradient<logistic_error_function, 2, 2>(Policy{}, logits.data(), wanted.data(), weight.data(), dx.data(),
                                                       loss.data());
    CHECK(loss[0] == doctest::Approx((std::log(4.0 / 3) + std::log(2.0)) / 2).epsilon(1e-14));
    CHECK(loss[1] ==
          doctest::Approx((0.5 * std::log(4.0 / 3) + 0.5 * std::log(4.0) + std::log(4.0)) / 2).epsilon(1e-14));
    CHECK(dx[0] == doctest::Approx(0.5 / 2 * (0.75 - 1)).epsilon(1e-14));
    CHECK(dx[2] == doctest::Approx(0.5 / 2 * 0.5).epsilon(1e-14));
    CHECK((dx[1] == 0 && dx[3] == 0));
    value_loss<logistic_error_function, 2, 2>(Policy{}, logits.data(), wanted.data(), evaluated.data());
    CHECK(evaluated == loss);
    std::vector<int> right(2, -1); // a logit of 0 says 0, and so does a target of 1/2
    value_loss<logistic_error_function, 2, 2>(Policy{}, logits.data(), wanted.data(), evaluated.data(), right.data());
    CHECK(right == std::vector<int>{2, 1});
}

template<class Policy>
void extremes() {
    // a logit far away: no overflow, and the loss is as far as the logit
    float const weight[] = {1};
    float loss[1], dx[1];
    auto const at = [&](float x, float target) {
        value_loss_gradient<logistic_error_function, 1, 1>(Policy{}, &x, &target, weight, dx, loss);
    };
    for (float const far : {3e4f, 1e30f}) {
        at(far, 0);
        CHECK((loss[0] == far && dx[0] == 1));
        at(far, 1);
        CHECK((loss[0] == 0 && dx[0] == 0));
        at(-far, 1);
        CHECK((loss[0] == far && dx[0] == -1));
        at(-far, 0);
        CHECK((loss[0] == 0 && dx[0] == 0));
    }
    at(-20, 0); // what is small keeps its digits
    CHECK(loss[0] == doctest::Approx(2.0611536e-9).epsilon(1e-6));
    CHECK(dx[0] == doctest::Approx(2.0611536e-9).epsilon(1e-6));
    at(20, 1);
    CHECK(loss[0] == doctest::Approx(2.0611536e-9).epsilon(1e-6));

    // a NaN is not hidden
    float const nan = std::numeric_limits<float>::quiet_NaN();
    for (float const target : {0.0f, 1.0f}) {
        at(nan, target);
        CHECK((std::isnan(loss[0]) && std::isnan(dx[0])));
    }
    at(1, nan);
    CHECK((std::isnan(loss[0]) && std::isnan(dx[0])));
    float const x[] = {nan, 0}, targets[] = {0, 0};
    value_loss<squared_error_function, 2, 1>(Policy{}, x, targets, loss);
    CHECK(std::isnan(loss[0]));
}

} // namespace

TEST_SUITE("kernels/value_loss") {
    TEST_CASE("two samples by hand") {
        by_hand<reference>();
        by_hand<portable>();
    }

    TEST_CASE("logits far away, and NaN") {
        extremes<reference>();
        extremes<portable>();
    }

    TEST_CASE("portable equals reference") {
        all_values<1, float>();
        all_values<4, float>();
        all_values<6, float>();
        all_values<16, float>();
        all_values<1, double>();
        all_values<4, double>();
        all_values<6, double>();
        all_values<16, double>();
    }
}

} // namespace device_value_loss_test
