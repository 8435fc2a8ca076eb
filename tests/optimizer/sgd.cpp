// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <optimizer/options.hpp>
#include <support/golden.hpp>
#include <trireme/trireme.hpp>

#include <trireme/kernels/reference/sgd.hpp>

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace optimizer_sgd_test {
using namespace trireme;
namespace golden = trireme_golden;
using optimizer_options::described;
using optimizer_options::options_of;

namespace {

struct rates {
    double learning_rate, momentum, weight_decay;
};

template<class Optimizer, class Kernels>
void check_updates(std::string const& kind) {
    CAPTURE(kind);
    golden::file const file("sgd");
    rates const o = {file.number("learning_rate"), file.number(kind + ".momentum"),
                     file.number(kind + ".weight_decay")};
    auto const update = [&](double* w, double const* gradient, auto state, std::uint64_t) {
        Optimizer::update(Kernels{}, w, gradient, state, 4, Optimizer::template numbers<double>(o));
    };
    optimizer_options::check_five_updates<Optimizer>(file.numbers(kind + ".w"), 1e-13, update);
}

/// A trainer hands these options to an optimizer, as far as that looks at them.
struct chosen {
    float learning_rate = 0.1f, momentum = 0.9f, weight_decay = 0.0f;
    std::chrono::duration<double> deadline = std::chrono::seconds(30);
};

template<class Optimizer>
constexpr auto takes = &optimizer_options::takes<Optimizer, chosen>;

} // namespace

TEST_SUITE("optimizer/sgd") {
    TEST_CASE_TEMPLATE("options are refused from the first wrong value on", Optimizer, sgd, sgd_momentum,
                       sgd_nesterov) {
        constexpr auto infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
        constexpr bool has_momentum = !std::is_same_v<Optimizer, sgd>;
        CHECK(takes<Optimizer>({}));
        CHECK(takes<Optimizer>({.learning_rate = 0, .momentum = 0, .weight_decay = 0}));
        CHECK(takes<Optimizer>({.momentum = 1}) == !has_momentum);
        CHECK(takes<Optimizer>({.momentum = -0.1f}) == !has_momentum);
        for (float const wrong : {-1e-6f, infinity, nan}) {
            CHECK_FALSE(takes<Optimizer>({.learning_rate = wrong}));
            CHECK_FALSE(takes<Optimizer>({.weight_decay = wrong}));
        }
    }

    TEST_CASE("processes must agree in every number that an update takes, and defaults stay what they are") {
        chosen const o{.learning_rate = 0.25f, .momentum = 0.5f, .weight_decay = 0.125f};
        CHECK(described<sgd>(o) == "learning_rate 0.25; weight_decay 0.125; ");
        CHECK(described<sgd_momentum>(o) == "learning_rate 0.25; weight_decay 0.125; momentum 0.5; ");
        CHECK(described<sgd_nesterov>(o) == described<sgd_momentum>(o));
        CHECK(described<sgd>(options_of<sgd>{}) == "learning_rate 0.1; weight_decay 0; ");
        CHECK(described<sgd_momentum>(options_of<sgd_momentum>{}) ==
              "learning_rate 0.1; weight_decay 0; momentum 0.9; ");
    }

    TEST_CASE_TEMPLATE("updates equal PyTorch's", Kernels, portable, reference) {
        check_updates<sgd, Kernels>("plain");
        check_updates<sgd, Kernels>("plain_wd");
        check_updates<sgd_momentum, Kernels>("momentum");
        check_updates<sgd_momentum, Kernels>("momentum_wd");
        check_updates<sgd_nesterov, Kernels>("nesterov");
        check_updates<sgd_nesterov, Kernels>("nesterov_wd");
    }

    TEST_CASE("golden values that are not there: errors name the file and the tensor") {
        golden::file const file("sgd"), none("none");
        auto const refuses = [](auto const& read, char const* path, char const* what) {
            CHECK_THROWS_WITH_AS(read(), doctest::Contains(path), data_error);
            CHECK_THROWS_WITH(read(), doctest::Contains(what));
        };
        refuses([&] { none.numbers("plain.w"); }, "golden/none.safetensors", "cannot be opened");
        refuses([&] { file.numbers("plain.v"); }, "golden/sgd.safetensors", "no tensor 'plain.v'");
        refuses([&] { file.integers("plain.w"); }, "golden/sgd.safetensors",
                "'plain.w' is F64 [5, 4], and wanted is I64");
        refuses([&] { file.number("plain.w"); }, "golden/sgd.safetensors", "'plain.w' is F64 [5, 4]");
    }
}

} // namespace optimizer_sgd_test
