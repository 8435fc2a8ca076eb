// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/device/host/exp.hpp>

#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace device_exp_test {
using namespace trireme;

namespace {

template<std::size_t N, class T>
T exponential_of(T x) {
    T values[N] = {};
    values[N - 1] = x;
    exponential(lane_vector<T, N>::load(values)).store(values);
    return values[N - 1];
}

template<class T>
void edges() {
    T const infinity = std::numeric_limits<T>::infinity();
    constexpr std::size_t n = full_register<T>;
    CHECK(exponential_of<n>(T(0)) == 1);
    CHECK(exponential_of<n>(T(-0.0)) == 1);
    CHECK(exponential_of<n>(infinity) == infinity);
    CHECK(exponential_of<n>(-infinity) == 0);
    CHECK(exponential_of<n>(std::numeric_limits<T>::max()) == infinity);
    CHECK(exponential_of<n>(std::numeric_limits<T>::lowest()) == 0);
    CHECK(exponential_of<n>(std::numeric_limits<T>::denorm_min()) == 1);
    CHECK(std::isnan(exponential_of<n>(std::numeric_limits<T>::quiet_NaN())));
    CHECK(std::isnan(exponential_of<n>(-std::numeric_limits<T>::quiet_NaN())));
    // around the largest finite result, the smallest normal one and the smallest of all
    for (T result :
         {std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), std::numeric_limits<T>::denorm_min()}) {
        T x = std::log(result);
        for (int i = 0; i < 50; ++i) x = std::nextafter(x, -infinity);
        for (int i = 0; i < 100; ++i, x = std::nextafter(x, infinity)) {
            CAPTURE(x);
            CHECK(numbers::ulps(exponential_of<n>(x), std::exp(static_cast<long double>(x))) <= 2);
        }
    }
}

/// Powers of two against the true value, and where nothing is left of them, or they are infinite.
template<class T>
void powers_of_two() {
    static constexpr std::size_t n = full_register<T>;
    auto const in_last_lane = [](T x, auto const& f) {
        T values[n] = {};
        values[n - 1] = x;
        f(lane_vector<T, n>::load(values)).store(values);
        return values[n - 1];
    };
    auto const power = [&](T x) { return in_last_lane(x, [](auto v) { return power_of_two_of_negative(v); }); };
    auto const beside_one = [&](T x) { return in_last_lane(x, [](auto v) { return one_and_power_of_two(v); }); };
    T const infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    constexpr int least = std::numeric_limits<T>::min_exponent - 1; // of a normal number
    constexpr T overflow = std::numeric_limits<T>::max_exponent;
    for (T x : {T(least - 1), T(2 * least), std::numeric_limits<T>::lowest(), -infinity}) {
        CHECK(power(x) == 0);
        CHECK(beside_one(x) == 1);
    }
    for (T x : {overflow, std::numeric_limits<T>::max(), infinity}) CHECK(beside_one(x) == infinity);
    for (int i = 0; i >= least; --i) CHECK(power(T(i)) == std::ldexp(T(1), i));
    CHECK(beside_one(T(0)) == 2);
    CHECK(std::isnan(power(nan)));
    CHECK(std::isnan(beside_one(nan)));
    double worst = 0, worst_beside_one = 0;
    for (double x = 1.2 * least; x < 0.99 * static_cast<double>(overflow); x += -least / 300'000.0) {
        auto const at = static_cast<T>(x);
        auto const truth = std::exp2(static_cast<long double>(at));
        worst_beside_one = std::max(worst_beside_one, numbers::ulps(beside_one(at), 1 + truth));
        if (x <= 0 && x >= least) worst = std::max(worst, numbers::ulps(power(at), truth));
    }
    CHECK(worst <= 2);
    CHECK(worst_beside_one <= 2);
    MESSAGE("worst: ", worst, " ulp; beside one: ", worst_beside_one, " ulp");
}

} // namespace

TEST_SUITE("device/exp") {
    TEST_CASE("zeros, infinities, NaN, overflow and underflow") {
        edges<float>();
        edges<double>();
    }

    TEST_CASE("float: at most 2 ulp, every 509th number") {
        double worst = 0;
        for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 509 * full_register<float>) {
            float x[full_register<float>], y[full_register<float>];
            for (std::size_t i = 0; i < full_register<float>; ++i)
                x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits + 509 * i));
            exponential(lane_vector<float, full_register<float>>::load(x)).store(y);
            for (std::size_t i = 0; i < full_register<float>; ++i) // double is exact enough for a float's 2 ulp
                worst = std::max(worst, numbers::ulps(y[i], std::exp(static_cast<double>(x[i]))));
        }
        CHECK(worst <= 2);
        MESSAGE("worst: ", worst, " ulp");
    }

    TEST_CASE("double: at most 2 ulp over a sweep") {
        double worst = 0;
        for (int i = -760'000; i <= 720'000; ++i) {
            double const x = i * 1.0e-3 + 1.0e-7 * (i % 997);
            worst = std::max(worst, numbers::ulps(exponential_of<1>(x), std::exp(static_cast<long double>(x))));
        }
        for (double x = 1e-300; x < 1; x *= 1.7)
            for (double s : {x, -x})
                worst = std::max(worst, numbers::ulps(exponential_of<1>(s), std::exp(static_cast<long double>(s))));
        CHECK(worst <= 2);
        MESSAGE("worst: ", worst, " ulp");
    }

    TEST_CASE("powers of two: at most 2 ulp, exact where they are whole, and what no number is left of") {
        powers_of_two<float>();
        powers_of_two<double>();
    }

    TEST_CASE("a number's result does not depend on its lane") {
        auto const x = numbers::uniform<float>(0, 1024, 90);
        constexpr std::size_t n = full_register<float>;
        for (std::size_t i = 0; i < x.size(); i += n) {
            float together[n];
            exponential(lane_vector<float, n>::load(x.data() + i)).store(together);
            for (std::size_t j = 0; j < n; ++j) CHECK(together[j] == exponential_of<n>(x[i + j]));
        }
    }
}

} // namespace device_exp_test
