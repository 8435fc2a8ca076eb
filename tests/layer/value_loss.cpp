// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/golden.hpp>
#include <support/hash.hpp>
#include <trireme/reference.hpp>

#include "loss_of_batch.hpp"
#include "one_sample.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace layer_value_loss_test {
using namespace trireme;
namespace golden = trireme_golden;

namespace {

/// x^4 / 4 of how far a value is off, and one whose slope is wrong.
struct fourth_power {
    static constexpr int operations = 5;
    template<class T>
    static T value(T x, T target) noexcept {
        T const off = x - target;
        return off * off * off * off / 4;
    }
    template<class T>
    static T slope(T x, T target) noexcept {
        T const off = x - target;
        return off * off * off;
    }
};
struct own_logits : fourth_power {
    static constexpr bool of_logits = true;
};
struct wrong_slope : fourth_power {
    template<class T>
    static T slope(T x, T target) noexcept {
        T const off = x - target;
        return off * off;
    }
};

template<class Loss, class Kernels>
void as_torch(char const* name, bool from_zero) {
    CAPTURE(std::string(name));
    golden::file const losses("losses");
    auto targets = golden::tensor<double>(402, 7 * 6, 1.0);
    for (auto& t : targets) t = from_zero ? (t + 1) / 2 : t;
    test_loss::batch<Loss, extents<1, 2, 3>, Kernels> const batch(golden::tensor<double>(401, 7 * 6, 4.0), targets);
    CHECK(batch.mean == doctest::Approx(losses.number(std::string(name) + ".y")).epsilon(1e-12));
    test_loss::check_equal(batch.gradient, losses.numbers(std::string(name) + ".dx"));
}

} // namespace

TEST_SUITE("layer/value_loss") {
    TEST_CASE_TEMPLATE("the gradient is the derivative", Kernels, portable, one_sample, reference) {
        for (std::uint64_t const seed : {1u, 2u, 3u}) {
            CAPTURE(seed);
            CHECK(check_loss_gradients<mean_squared_error, input<1>, Kernels>(seed).ok());
            CHECK(check_loss_gradients<mean_squared_error, input<3, 4, 5>, Kernels>(seed).ok());
            CHECK(check_loss_gradients<binary_cross_entropy, input<1>, Kernels>(seed).ok());
            CHECK(check_loss_gradients<binary_cross_entropy, input<3, 4, 5>, Kernels>(seed).ok());
            CHECK(check_loss_gradients<value_loss_of<fourth_power>, input<7>, Kernels>(seed).ok());
            CHECK(check_loss_gradients<value_loss_of<wrong_slope>, input<7>, Kernels>(seed).input_error > 0.01);
        }
    }

    TEST_CASE_TEMPLATE("losses and gradients of a batch equal PyTorch's", Kernels, portable, one_sample, reference) {
        as_torch<mean_squared_error, Kernels>("squared", false);
        as_torch<binary_cross_entropy, Kernels>("logistic", true);
    }

    TEST_CASE("a target for each value, and FLOPs of the function") {
        constexpr auto out = make_shape(3, 4, 5);
        static_assert(mean_squared_error::describe(out).targets == out);
        static_assert(mean_squared_error::describe(out).classes == 0);
        static_assert(mean_squared_error::describe(out).flops == 2 * 3 * 60);
        static_assert(binary_cross_entropy::describe(out).flops == 2 * 6 * 60);
        static_assert(std::is_same_v<target_t<mean_squared_error, extents<4>, float>, float>);
        static_assert(!detail::weighs_samples<mean_squared_error, extents<4>, float>);
    }

    TEST_CASE_TEMPLATE("functions of logits have answers, others have none", Kernels, portable, one_sample, reference) {
        constexpr auto out = make_shape(3);
        static_assert(!mean_squared_error::describe(out).has_answers());
        static_assert(!value_loss_of<fourth_power>::describe(out).has_answers());
        static_assert(binary_cross_entropy::describe(out).logistic && cross_entropy::describe(out).has_answers());
        static_assert(meaning_of<value_loss_of<own_logits>>(out) == output_meaning{.logistic = true});
        static_assert(meaning_of<cross_entropy>(out) == output_meaning{.classes = 3});
        std::vector<double> const x{1, -1, 0, 2, 5, -5}, targets{1, 0, 0, 0.25, 0.75, 1};
        CHECK(test_loss::batch<binary_cross_entropy, extents<3>, Kernels>(x, targets).correct == 4);
    }
}

} // namespace layer_value_loss_test
