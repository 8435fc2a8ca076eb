// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <optimizer/options.hpp>
#include <support/golden.hpp>
#include <support/hash.hpp>
#include <trireme/trireme.hpp>

#include <trireme/kernels/reference/adagrad.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace optimizer_adagrad_test {
using namespace trireme;
namespace golden = trireme_golden;
using optimizer_options::described;
using optimizer_options::options_of;

namespace {

struct rates {
    double learning_rate = 0.01, rate_decay = 0, initial_accumulator = 0, epsilon = 1e-10, weight_decay = 0;
};

template<class Kernels>
void check_updates(std::string const& kind) {
    CAPTURE(kind);
    golden::file const file("adagrad");
    rates const o{file.number("learning_rate"), file.number(kind + ".rate_decay"),
                  file.number(kind + ".initial_accumulator"), file.number("epsilon"),
                  file.number(kind + ".weight_decay")};
    auto const update = [&](double* w, double const* gradient, auto state, std::uint64_t made) {
        adagrad::update(Kernels{}, w, gradient, state, 4, adagrad::numbers<double>(o), &made);
    };
    optimizer_options::check_five_updates<adagrad>(file.numbers(kind + ".w"), 1e-12, update);
}

constexpr auto takes = &optimizer_options::takes<adagrad, rates>;

} // namespace

TEST_SUITE("optimizer/adagrad") {
    TEST_CASE_TEMPLATE("updates equal PyTorch's", Kernels, portable, reference) {
        for (auto const* kind : {"plain", "slower", "begun", "all"}) check_updates<Kernels>(kind);
    }

    TEST_CASE_TEMPLATE("a weight's bits do not depend on how the array is cut", T, float, double) {
        for (std::size_t const n : {1u, 37u, 100u}) {
            CAPTURE(n);
            auto const g = golden::tensor<T>(301, n, 1.0);
            auto whole = golden::tensor<T>(300, n, 1.0), parts = whole, by_value = whole;
            auto const k = adagrad::numbers<T>(
                rates{.learning_rate = 0.1, .rate_decay = 0.5, .initial_accumulator = 0.1, .weight_decay = 0.1});
            std::vector<T> v(n), v2(n), v3(n);
            for (std::uint64_t made = 0; made < 3; ++made) {
                adagrad_update(portable{}, whole.data(), v.data(), g.data(), n, k, made);
                auto const a = n / 3;
                adagrad_update(portable{}, parts.data(), v2.data(), g.data(), a, k, made);
                adagrad_update(portable{}, parts.data() + a, v2.data() + a, g.data() + a, n - a, k, made);
                adagrad_update(reference{}, by_value.data(), v3.data(), g.data(), n, k, made);
            }
            CHECK(whole == parts);
            CHECK(v == v2);
            for (std::size_t i = 0; i < n; ++i)
                CHECK(std::abs(whole[i] - by_value[i]) <= 8 * std::numeric_limits<T>::epsilon());
        }
    }

    TEST_CASE("options are refused from the first wrong value on") {
        CHECK(takes({}));
        CHECK(takes({.rate_decay = 2, .initial_accumulator = 2, .epsilon = 0}));
        for (double const wrong : {-1e-9, std::nan(""), HUGE_VAL}) {
            CHECK_FALSE(takes({.learning_rate = wrong}));
            CHECK_FALSE(takes({.rate_decay = wrong}));
            CHECK_FALSE(takes({.initial_accumulator = wrong}));
            CHECK_FALSE(takes({.epsilon = wrong}));
            CHECK_FALSE(takes({.weight_decay = wrong}));
        }
    }

    TEST_CASE("processes agree in all of its options, whose defaults are PyTorch's") {
        CHECK(described<adagrad>(options_of<adagrad>{}) ==
              "learning_rate 0.01; weight_decay 0; rate_decay 0; initial_accumulator 0; epsilon 1e-10; ");
    }
}

} // namespace optimizer_adagrad_test
