// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <optimizer/options.hpp>
#include <support/golden.hpp>
#include <support/hash.hpp>
#include <trireme/trireme.hpp>

#include <trireme/kernels/reference/adam.hpp>
#include <trireme/kernels/reference/gradient_norm.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace optimizer_adam_test {
using namespace trireme;
namespace golden = trireme_golden;

namespace {

struct rates {
    double learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
};

rates rates_of(golden::file const& file, std::string const& kind) {
    return {file.number("learning_rate"), file.number("beta1"), file.number("beta2"), file.number("epsilon"),
            file.number(kind + ".weight_decay")};
}

template<class Optimizer, class Kernels>
void check_updates(std::string const& kind, bool clips = false) {
    CAPTURE(kind);
    CAPTURE(clips);
    golden::file const file("adam");
    auto const k = Optimizer::template numbers<double>(rates_of(file, kind));
    auto const update = [&](double* w, double* gradient, auto state, std::uint64_t made) {
        if (clips) {
            double const norm = std::sqrt(sum_of_squares(Kernels{}, gradient, 4));
            CHECK(norm == doctest::Approx(file.numbers("clipped.norms")[made]).epsilon(1e-14));
            scale_values(Kernels{}, gradient, clipping_factor(norm, file.number("max_norm")), 4);
        }
        Optimizer::update(Kernels{}, w, gradient, state, 4, k, &made);
    };
    optimizer_options::check_five_updates<Optimizer>(file.numbers(clips ? "clipped.w" : kind + ".w"), 1e-12, update);
}

template<class Optimizer>
constexpr auto takes = &optimizer_options::takes<Optimizer, rates>;

} // namespace

TEST_SUITE("optimizer/adam") {
    TEST_CASE_TEMPLATE("updates equal PyTorch's", Kernels, portable, reference) {
        check_updates<adam, Kernels>("adam");
        check_updates<adam, Kernels>("adam_wd");
        check_updates<adamw, Kernels>("adamw");
        check_updates<adamw, Kernels>("adamw_wd");
        check_updates<adamw, Kernels>("adamw_wd", true);
    }

    TEST_CASE_TEMPLATE("a weight's bits do not depend on how the array is cut", T, float, double) {
        for (std::size_t const n : {1u, 37u, 100u}) {
            CAPTURE(n);
            auto const g = golden::tensor<T>(301, n, 1.0);
            auto const begin = golden::tensor<T>(300, n, 1.0);
            auto const k = adamw::numbers<T>(rates{.weight_decay = 0.1});
            auto whole = begin, parts = begin, by_value = begin;
            std::vector<T> m(n), v(n), m2(n), v2(n), m3(n), v3(n);
            for (std::uint64_t made = 0; made < 3; ++made) {
                adam_update<true>(portable{}, whole.data(), m.data(), v.data(), g.data(), n, k, made);
                auto const a = n / 3;
                adam_update<true>(portable{}, parts.data(), m2.data(), v2.data(), g.data(), a, k, made);
                adam_update<true>(portable{}, parts.data() + a, m2.data() + a, v2.data() + a, g.data() + a, n - a, k,
                                  made);
                adam_update<true>(reference{}, by_value.data(), m3.data(), v3.data(), g.data(), n, k, made);
            }
            CHECK(whole == parts);
            CHECK(v == v2);
            for (std::size_t i = 0; i < n; ++i)
                CHECK(std::abs(whole[i] - by_value[i]) <= 8 * std::numeric_limits<T>::epsilon());
        }
    }

    TEST_CASE("corrections of means have all digits of float") {
        for (float const beta1 : {0.0f, 0.5f, 0.9f, 0.9999f})
            for (float const beta2 : {0.0f, 0.99f, 0.999f, 0.99999f})
                for (std::uint64_t const made : {0u, 1u, 2u, 9u, 999u, 1'000'000u}) {
                    CAPTURE(beta1);
                    CAPTURE(beta2);
                    CAPTURE(made);
                    auto const found = adam_correction<float>::of({.rate = 1, .beta1 = beta1, .beta2 = beta2}, made);
                    auto const without = [&](double beta) { return 1 - std::pow(beta, static_cast<double>(made + 1)); };
                    CHECK(static_cast<double>(found.step) ==
                          doctest::Approx(1 / without(static_cast<double>(beta1))).epsilon(5e-7));
                    CHECK(static_cast<double>(found.root) ==
                          doctest::Approx(1 / std::sqrt(without(static_cast<double>(beta2)))).epsilon(5e-7));
                }
    }

    TEST_CASE_TEMPLATE("options are refused from the first wrong value on", Optimizer, adam, adamw) {
        CHECK(takes<Optimizer>({}));
        CHECK(takes<Optimizer>({.beta1 = 0, .beta2 = 0, .epsilon = 0}));
        double const nan = std::nan("");
        for (double const wrong : {-0.1, 1.0, nan}) {
            CHECK_FALSE(takes<Optimizer>({.beta1 = wrong}));
            CHECK_FALSE(takes<Optimizer>({.beta2 = wrong}));
        }
        for (double const wrong : {-1e-9, nan}) {
            CHECK_FALSE(takes<Optimizer>({.learning_rate = wrong}));
            CHECK_FALSE(takes<Optimizer>({.epsilon = wrong}));
            CHECK_FALSE(takes<Optimizer>({.weight_decay = wrong}));
        }
    }

    TEST_CASE("processes agree in all of its options") {
        CHECK(optimizer_options::described<adamw>(rates{}) ==
              "learning_rate 0.001; weight_decay 0; beta1 0.9; beta2 0.999; epsilon 1e-08; ");
    }
}

} // namespace optimizer_adam_test
