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
#include <vector>

namespace layer_cross_entropy_with_test {
using namespace trireme;
namespace golden = trireme_golden;
using test_loss::weights_of_ten;

namespace {

struct weights_of_three {
    static constexpr float of[3] = {0.5f, 0, 2};
};
struct weight_of_one {
    static constexpr double of[] = {3};
};
using smooth = label_smoothing<percent<10>>;
using weighted = class_weights<weights_of_ten>;

/// Losses with a mistake.
struct sign_lost : cross_entropy_with<smooth> {
    static void backward(auto const& io) {
        cross_entropy_with<smooth>::backward(io);
        for (std::size_t i = 0; i < io.dx.size(); ++i) io.dx[i] = -io.dx[i];
    }
};
struct smoothed_forward_only : cross_entropy_with<smooth> {
    static void backward(auto const& io) {
        cross_entropy_with<>::backward(io);
        cross_entropy_with<smooth>::forward(io);
    }
};
struct ignored_backward_only : cross_entropy_with<ignoring<-1>> {
    static void forward(auto const& io) {
        cross_entropy_with<ignoring<-1>>::forward(io);
        for (std::size_t i = 0; i < io.lanes; ++i)
            if (io.target[i] == -1) io.loss[i] = io.x[i];
    }
};
struct other_loss_backward : cross_entropy_with<> {
    static void backward(auto const& io) {
        cross_entropy_with<>::backward(io);
        io.loss[0] += 1;
    }
};
struct adds_gradient : cross_entropy_with<> {
    static void backward(auto const& io) {
        auto const before = io.dx[0];
        cross_entropy_with<>::backward(io);
        io.dx[0] += before;
    }
};

template<class Kernels, class... Options>
void as_torch(char const* name, bool some_ignored) {
    CAPTURE(std::string(name));
    golden::file const losses("losses");
    auto const labels = losses.integers(some_ignored ? "labels_some_ignored" : "labels");
    test_loss::batch<cross_entropy_with<Options...>, extents<10>, Kernels> const batch(
        golden::tensor<double>(400, labels.size() * 10, 4.0), {labels.begin(), labels.end()});
    CHECK(batch.mean == doctest::Approx(losses.number(std::string(name) + ".y")).epsilon(1e-12));
    test_loss::check_equal(batch.gradient, losses.numbers(std::string(name) + ".dx"));
}

} // namespace

TEST_SUITE("layer/cross_entropy_with") {
    TEST_CASE_TEMPLATE("the gradient is the derivative, whatever the options", Kernels, portable, one_sample,
                       reference) {
        for (std::uint64_t const seed : {1u, 2u, 3u, 4u}) { // with other labels, of which some are ignored
            CAPTURE(seed);
            CHECK(check_loss_gradients<cross_entropy, input<10>, Kernels>(seed).ok());
            CHECK(check_loss_gradients<cross_entropy_with<>, input<10>, Kernels>(seed).ok());
            CHECK(check_loss_gradients<cross_entropy_with<smooth>, input<10>, Kernels>(seed).ok());
            CHECK(check_loss_gradients<cross_entropy_with<weighted>, input<10>, Kernels>(seed).ok());
            CHECK(check_loss_gradients<cross_entropy_with<ignoring<255>>, input<3>, Kernels>(seed).ok());
            CHECK(check_loss_gradients<cross_entropy_with<ignoring<-100>, weighted, smooth>, input<10>, Kernels>(seed)
                      .ok());
            using some = class_weights<weights_of_three>;
            CHECK(check_loss_gradients<cross_entropy_with<some, label_smoothing<percent<99>>>, input<3>, Kernels>(seed)
                      .ok());
            CHECK(check_loss_gradients<cross_entropy_with<class_weights<weight_of_one>>, input<1>, Kernels>(seed).ok());
        }
    }

    TEST_CASE("the checker finds what is wrong with a loss") {
        using in = input<4>;
        CHECK(check_loss_gradients<sign_lost, in>().input_error > 0.01);
        CHECK(check_loss_gradients<smoothed_forward_only, in>().input_error > 0.001);
        bool found = false; // some seed draws the label
        for (std::uint64_t seed = 1; seed < 8; ++seed)
            found = found || check_loss_gradients<ignored_backward_only, in>(seed).input_error > 0.1;
        CHECK(found);
        CHECK_FALSE(check_loss_gradients<other_loss_backward, in>().adds_parameter_gradients);
        CHECK_FALSE(check_loss_gradients<other_loss_backward, in>().ok());
        CHECK_FALSE(check_loss_gradients<adds_gradient, in>().overwrites_input_gradient);
        CHECK(check_loss_gradients<cross_entropy_with<>, in>().derivatives == 4 * portable::lanes<double>);
    }

    TEST_CASE_TEMPLATE("losses and gradients of a batch equal PyTorch's", Kernels, portable, one_sample, reference) {
        as_torch<Kernels>("plain", false);
        as_torch<Kernels, smooth>("smooth", false);
        as_torch<Kernels, weighted>("weighted", false);
        as_torch<Kernels, ignoring<255>>("ignoring", true);
        as_torch<Kernels, weighted, smooth>("smooth_weighted", false);
        as_torch<Kernels, smooth, ignoring<255>>("smooth_ignoring", true);
        as_torch<Kernels, ignoring<255>, weighted>("weighted_ignoring", true);
        as_torch<Kernels, ignoring<255>, weighted, smooth>("all", true);
        std::vector<double> const weights(std::begin(weights_of_ten::of), std::end(weights_of_ten::of));
        CHECK(golden::file("losses").numbers("class_weights") == weights);
    }

    TEST_CASE("weights are those of the label, and only options that need them bring some") {
        using out = extents<10>;
        static_assert(!detail::weighs_samples<cross_entropy, out, float>);
        static_assert(!detail::weighs_samples<cross_entropy_with<>, out, float>);
        static_assert(!detail::weighs_samples<cross_entropy_with<smooth>, out, float>);
        static_assert(detail::weighs_samples<cross_entropy_with<weighted>, out, float>);
        static_assert(detail::weighs_samples<cross_entropy_with<smooth, ignoring<-1>>, out, double>);
        auto const weight = []<class Loss>(Loss, int label) { return Loss::weight(&label); };
        CHECK(weight(cross_entropy_with<weighted>{}, 6) == 3.0);
        CHECK(weight(cross_entropy_with<ignoring<-1>>{}, 6) == 1);
        CHECK(weight(cross_entropy_with<ignoring<-1>>{}, -1) == 0);
        CHECK(weight(cross_entropy_with<ignoring<99>, weighted>{}, 99) == 0);
        CHECK(weight(cross_entropy_with<ignoring<99>, weighted>{}, 9) == 0.1);
        CHECK(weight(cross_entropy_with<class_weights<weights_of_three>>{}, 0) == 0.5);
        CHECK((batch_weight{4, 3}.scale() == 0.25 && batch_weight{4, 3}.mean(2) == 0.5));
        CHECK((batch_weight{}.scale() == 0 && batch_weight{}.mean(2) == 0));
    }

    TEST_CASE("what it takes, and what it tells of itself") {
        constexpr auto ten = make_shape(10);
        static_assert(cross_entropy_with<weighted>::describe(ten).accepts);
        static_assert(cross_entropy_with<weighted>::describe(ten).classes == 10);
        static_assert(cross_entropy_with<weighted>::describe(ten).flops == 80);
        static_assert(cross_entropy_with<weighted>::describe(ten).ignored == no_label);
        static_assert(cross_entropy_with<ignoring<-3>>::describe(ten).ignored == -3);
        static_assert(!cross_entropy_with<weighted>::describe(make_shape(9)).accepts);
        static_assert(!cross_entropy_with<weighted>::describe(make_shape(11)).accepts);
        static_assert(!cross_entropy_with<>::describe(make_shape(2, 5, 1)).accepts);
        static_assert(!cross_entropy_with<ignoring<9>>::describe(ten).accepts);
        static_assert(!cross_entropy_with<ignoring<0>>::describe(ten).accepts);
        static_assert(cross_entropy_with<ignoring<10>>::describe(ten).accepts);
        static_assert(!cross_entropy_with<smooth, smooth>::describe(ten).accepts);
        static_assert(!cross_entropy_with<ignoring<-1>, weighted, ignoring<-1>>::describe(ten).accepts);
        static_assert(!cross_entropy_with<int>::describe(ten).accepts);
        static_assert(!cross_entropy_with<label_smoothing<percent<100>>>::describe(ten).accepts);
        static_assert(!cross_entropy_with<label_smoothing<percent<-1>>>::describe(ten).accepts);
        static_assert(!cross_entropy_with<label_smoothing<10>>::describe(ten).accepts);
        static_assert(cross_entropy_with<label_smoothing<percent<99>>>::describe(ten).accepts);
    }
}

} // namespace layer_cross_entropy_with_test
