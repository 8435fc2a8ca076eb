// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable/activation.hpp>
#include <trireme/kernels/reference/activation.hpp>

#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <vector>

namespace device_activation_test {
using namespace trireme;

namespace {

/// A function of a user's own: no specialisation knows it.
struct cube_function {
    template<class T>
    static T value(T x) noexcept {
        return x * x * x;
    }
    template<class T>
    static T slope(T x, T) noexcept {
        return 3 * x * x;
    }
};

template<class F, class T>
void portable_equals_reference(std::size_t n) {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(n);
    CAPTURE(sizeof(T));
    auto const x = numbers::uniform<T>(0, n), dy = numbers::uniform<T>(1, n);
    auto y = numbers::unset<T>(n), expected_y = y, dx = y, expected_dx = y;
    activation_forward<F>(portable{}, x.data(), y.data(), n);
    activation_forward<F>(reference{}, x.data(), expected_y.data(), n);
    CHECK(numbers::apart(y, expected_y, 1) <= 1);
    activation_backward_input<F>(portable{}, x.data(), y.data(), dy.data(), dx.data(), n);
    activation_backward_input<F>(reference{}, x.data(), y.data(), dy.data(), expected_dx.data(), n);
    CHECK(numbers::apart(dx, expected_dx, 3) <= 1);

    // in place, and cut anywhere: the same bits
    auto in_place = x;
    activation_forward<F>(portable{}, in_place.data(), in_place.data(), n / 3);
    activation_forward<F>(portable{}, in_place.data() + n / 3, in_place.data() + n / 3, n - n / 3);
    CHECK(in_place == y);
    auto gradient = dy;
    activation_backward_input<F>(portable{}, x.data(), y.data(), gradient.data(), gradient.data(), n);
    CHECK(gradient == dx);
}

/// The largest error of portable's F in ulp, against truth(long double).
template<class F, class T, class Truth>
double worst_error(Truth const& truth) {
    std::vector<T> x;
    for (int i = -200'000; i <= 200'000; ++i) x.push_back(static_cast<T>(i * 1.0e-3 + 1.0e-8 * (i % 997)));
    for (int i = -100'000; i <= 100'000; ++i) x.push_back(static_cast<T>(i * 1.1e-5));
    for (double size = 1e-300; size < 1e300; size *= 1.3)
        for (double sign : {-1.0, 1.0})
            if (std::isfinite(static_cast<T>(sign * size))) x.push_back(static_cast<T>(sign * size));
    std::vector<T> y(x.size());
    activation_forward<F>(portable{}, x.data(), y.data(), x.size());
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
        worst = std::max(worst, numbers::ulps(y[i], truth(static_cast<long double>(x[i]))));
    return worst;
}

long double sigmoid_truth(long double x) { return 1 / (1 + std::exp(-x)); }
long double tanh_truth(long double x) { return std::tanh(x); }

template<class Policy, class F, class T>
T value_of(T x) {
    T y = 0;
    activation_forward<F>(Policy{}, &x, &y, 1);
    return y;
}
template<class Policy, class F, class T>
T slope_of(T x) {
    T const y = value_of<Policy, F>(x), dy = 1;
    T dx = 0;
    activation_backward_input<F>(Policy{}, &x, &y, &dy, &dx, 1);
    return dx;
}

/// GELU and its derivative by PyTorch 2.15, in both forms.
struct {
    double x, value, slope, tanh_value, tanh_slope;
} constexpr gelu_of_pytorch[] = {
    {-6.0, -5.9195258694799691e-09, -3.546870945402639e-08, -8.43964897967453e-11, -7.7099760128363292e-10},
    {-3.0, -0.0040496940948903104, -0.01194564720418392, -0.0036373920817729943, -0.011584166630969648},
    {-0.5, -0.15426876936299344, 0.13250487534383712, -0.15428599017485606, 0.13263009646535764},
    {0.7, 0.53062544344384888, 0.97661410113365987, 0.53057013470511671, 0.97635721865610403},
    {2.0, 1.9544997361036416, 1.0852318010781969, 1.954597694087775, 1.0860992566236183},
};

template<class Policy, class T>
void by_hand() {
    T const infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    CHECK(value_of<Policy, sigmoid_function>(T(0)) == T(0.5));
    CHECK(value_of<Policy, sigmoid_function>(infinity) == 1);
    CHECK(value_of<Policy, sigmoid_function>(-infinity) == 0);
    CHECK(std::isnan(value_of<Policy, sigmoid_function>(nan)));
    CHECK(slope_of<Policy, sigmoid_function>(T(0)) == T(0.25));
    CHECK(value_of<Policy, hyperbolic_tangent_function>(T(0)) == 0);
    CHECK(value_of<Policy, hyperbolic_tangent_function>(infinity) == 1);
    CHECK(value_of<Policy, hyperbolic_tangent_function>(-infinity) == -1);
    CHECK(std::isnan(value_of<Policy, hyperbolic_tangent_function>(nan)));
    CHECK(slope_of<Policy, hyperbolic_tangent_function>(T(0)) == 1);
    CHECK(value_of<Policy, relu_function>(T(-2)) == 0);
    CHECK(value_of<Policy, relu_function>(T(2)) == 2);
    CHECK(std::isnan(value_of<Policy, relu_function>(nan)));
    CHECK(slope_of<Policy, relu_function>(T(-2)) == 0);
    CHECK(slope_of<Policy, relu_function>(T(0)) == 0);
    CHECK(slope_of<Policy, relu_function>(T(2)) == 1);
    for (auto const& is : gelu_of_pytorch) { // near -6 the form by a tangent has lost all but the size of x
        T const x = static_cast<T>(is.x), eps = 8 * std::numeric_limits<T>::epsilon();
        CAPTURE(is.x);
        CHECK(value_of<Policy, gelu_function>(x) == doctest::Approx(is.value).epsilon(eps));
        CHECK(slope_of<Policy, gelu_function>(x) == doctest::Approx(is.slope).epsilon(16 * eps));
        CHECK(std::abs(static_cast<double>(value_of<Policy, gelu_tanh_function>(x)) - is.tanh_value) < 8 * eps);
        CHECK(std::abs(static_cast<double>(slope_of<Policy, gelu_tanh_function>(x)) - is.tanh_slope) < 32 * eps);
    }
    CHECK(value_of<Policy, gelu_function>(T(0)) == 0);
    CHECK(value_of<Policy, gelu_tanh_function>(T(0)) == 0);
    CHECK(slope_of<Policy, gelu_function>(T(0)) == T(0.5));
    CHECK(value_of<Policy, gelu_function>(T(40)) == 40);
    CHECK(value_of<Policy, gelu_tanh_function>(T(40)) == 40);
    for (T const x : {T(1e12), T(1.3e13), T(1e15), T(1e19), T(1e20), std::numeric_limits<T>::max() / 4}) {
        CAPTURE(x);
        CHECK(value_of<Policy, gelu_tanh_function>(x) == x);
        CHECK(slope_of<Policy, gelu_tanh_function>(x) == 1);
        CHECK(value_of<Policy, gelu_tanh_function>(-x) == 0);
        CHECK(slope_of<Policy, gelu_tanh_function>(-x) == 0);
    }
    CHECK(value_of<Policy, cube_function>(T(2)) == 8);
    CHECK(slope_of<Policy, cube_function>(T(2)) == 12);
}

} // namespace

TEST_SUITE("kernels/activation") {
    TEST_CASE("values and slopes by hand") {
        by_hand<reference, float>();
        by_hand<reference, double>();
        by_hand<portable, float>();
        by_hand<portable, double>();
    }

    TEST_CASE("portable equals reference for any length, in place and in parts") {
        for (std::size_t n : std::initializer_list<std::size_t>{0, 1, 5, 16, 33, 1000}) {
            portable_equals_reference<sigmoid_function, float>(n);
            portable_equals_reference<sigmoid_function, double>(n);
            portable_equals_reference<hyperbolic_tangent_function, float>(n);
            portable_equals_reference<hyperbolic_tangent_function, double>(n);
            portable_equals_reference<relu_function, float>(n);
            portable_equals_reference<relu_function, double>(n);
            portable_equals_reference<gelu_function, float>(n);
            portable_equals_reference<gelu_function, double>(n);
            portable_equals_reference<gelu_tanh_function, float>(n);
            portable_equals_reference<gelu_tanh_function, double>(n);
            portable_equals_reference<cube_function, float>(n);
            portable_equals_reference<cube_function, double>(n);
        }
    }

    TEST_CASE("the promised errors: sigmoid 3 ulp, tanh 2 ulp, everywhere") {
        double const errors[] = {worst_error<sigmoid_function, float>(sigmoid_truth),
                                 worst_error<sigmoid_function, double>(sigmoid_truth),
                                 worst_error<hyperbolic_tangent_function, float>(tanh_truth),
                                 worst_error<hyperbolic_tangent_function, double>(tanh_truth)};
        MESSAGE("sigmoid ", errors[0], " (float), ", errors[1], " (double); tanh ", errors[2], " (float), ", errors[3],
                " (double) ulp");
        CHECK(errors[0] <= 3);
        CHECK(errors[1] <= 3);
        CHECK(errors[2] <= 2);
        CHECK(errors[3] <= 2);
    }

    TEST_CASE("gelu_tanh keeps its bits where the tangent is near -1") {
        auto const is = [](auto x) {
            using T = decltype(x);
            auto const u = 2 * std::sqrt(2 / 3.14159265358979323846L) * (x + 0.044715L * x * x * x);
            auto const off =
                static_cast<long double>(value_of<portable, gelu_tanh_function>(x)) * (1 + std::exp(-u)) / x;
            CAPTURE(x);
            CHECK(std::abs(off - 1) < 64 * std::numeric_limits<T>::epsilon());
        };
        for (int i = 1; i < 80; ++i) {
            is(static_cast<float>(-0.1 * i));
            is(-0.1 * i);
        }
        for (float x : {-12.0f, -1e3f, -1e9f}) {
            CHECK(value_of<portable, gelu_tanh_function>(x) == 0);
            CHECK(slope_of<portable, gelu_tanh_function>(x) == 0);
        }
    }
}

} // namespace device_activation_test
