// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <optimizer/options.hpp>
#include <support/golden.hpp>
#include <support/hash.hpp>
#include <trireme/trireme.hpp>

#include <trireme/kernels/reference/rmsprop.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace optimizer_rmsprop_test {
using namespace trireme;
namespace golden = trireme_golden;
using optimizer_options::described;
using optimizer_options::options_of;

namespace {

struct rates {
    double learning_rate = 0.01, smoothing = 0.99, epsilon = 1e-8, momentum = 0.9, weight_decay = 0;
};

template<class Optimizer, class Kernels>
void check_updates(std::string const& kind) {
    CAPTURE(kind);
    golden::file const file("rmsprop");
    rates const o{file.number("learning_rate"), file.number("smoothing"), file.number("epsilon"),
                  file.number(kind + ".momentum"), file.number(kind + ".weight_decay")};
    auto const update = [&](double* w, double const* gradient, auto state, std::uint64_t) {
        Optimizer::update(Kernels{}, w, gradient, state, 4, Optimizer::template numbers<double>(o));
    };
    optimizer_options::check_five_updates<Optimizer>(file.numbers(kind + ".w"), 1e-12, update);
}

/// Whole, in two parts, and by the reference.
template<bool Momentum, class T>
void check_places(std::size_t n) {
    CAPTURE(n);
    auto const g = golden::tensor<T>(301, n, 1.0);
    auto whole = golden::tensor<T>(300, n, 1.0), parts = whole, by_value = whole;
    auto const k = rmsprop_momentum::numbers<T>(rates{.weight_decay = 0.1});
    std::vector<T> v(n), b(n), v2(n), b2(n), v3(n), b3(n);
    for (int update = 0; update < 3; ++update) {
        rmsprop_update<Momentum>(portable{}, whole.data(), v.data(), b.data(), g.data(), n, k);
        auto const a = n / 3;
        rmsprop_update<Momentum>(portable{}, parts.data(), v2.data(), b2.data(), g.data(), a, k);
        rmsprop_update<Momentum>(portable{}, parts.data() + a, v2.data() + a, b2.data() + a, g.data() + a, n - a, k);
        rmsprop_update<Momentum>(reference{}, by_value.data(), v3.data(), b3.data(), g.data(), n, k);
    }
    CHECK(whole == parts);
    CHECK(v == v2);
    CHECK(b == b2);
    CHECK((b == std::vector<T>(n)) == !Momentum);
    for (std::size_t i = 0; i < n; ++i)
        CHECK(std::abs(whole[i] - by_value[i]) <= 8 * std::numeric_limits<T>::epsilon());
}

template<class Optimizer>
constexpr auto takes = &optimizer_options::takes<Optimizer, rates>;

} // namespace

TEST_SUITE("optimizer/rmsprop") {
    TEST_CASE_TEMPLATE("updates equal PyTorch's", Kernels, portable, reference) {
        check_updates<rmsprop, Kernels>("plain");
        check_updates<rmsprop, Kernels>("plain_wd");
        check_updates<rmsprop_momentum, Kernels>("momentum");
        check_updates<rmsprop_momentum, Kernels>("momentum_wd");
    }

    TEST_CASE_TEMPLATE("a weight's bits do not depend on how the array is cut", T, float, double) {
        for (std::size_t const n : {1u, 37u, 100u}) {
            check_places<false, T>(n);
            check_places<true, T>(n);
        }
    }

    TEST_CASE_TEMPLATE("options are refused from the first wrong value on", Optimizer, rmsprop, rmsprop_momentum) {
        constexpr bool has_momentum = std::is_same_v<Optimizer, rmsprop_momentum>;
        CHECK(takes<Optimizer>({}));
        CHECK(takes<Optimizer>({.smoothing = 0, .epsilon = 0, .momentum = 0}));
        double const nan = std::nan("");
        for (double const wrong : {-0.1, 1.0, nan}) {
            CHECK_FALSE(takes<Optimizer>({.smoothing = wrong}));
            CHECK(takes<Optimizer>({.momentum = wrong}) == !has_momentum);
        }
        for (double const wrong : {-1e-9, nan, HUGE_VAL}) {
            CHECK_FALSE(takes<Optimizer>({.learning_rate = wrong}));
            CHECK_FALSE(takes<Optimizer>({.epsilon = wrong}));
            CHECK_FALSE(takes<Optimizer>({.weight_decay = wrong}));
        }
        CHECK_THROWS_WITH_AS(Optimizer::check(rates{.epsilon = -1e-9}),
                             doctest::Contains("epsilon = -1e-09: it must be a finite number, not negative"),
                             usage_error);
    }

    TEST_CASE("processes agree in all of its options; defaults are PyTorch's, but for a momentum") {
        CHECK(described<rmsprop>(options_of<rmsprop>{}) ==
              "learning_rate 0.01; weight_decay 0; smoothing 0.99; epsilon 1e-08; ");
        CHECK(described<rmsprop_momentum>(options_of<rmsprop_momentum>{}) ==
              "learning_rate 0.01; weight_decay 0; smoothing 0.99; epsilon 1e-08; momentum 0.9; ");
    }
}

} // namespace optimizer_rmsprop_test
