// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/golden.hpp>
#include <support/hash.hpp>
#include <trireme/trireme.hpp>

#include <trireme/kernels/reference/activation.hpp>
#include <trireme/kernels/reference/conv2d.hpp>
#include <trireme/kernels/reference/linear.hpp>
#include <trireme/kernels/reference/pool2d.hpp>
#include <trireme/kernels/reference/softmax_cross_entropy.hpp>

#include "against_torch.hpp"
#include "one_sample.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace layer_golden_test {
using namespace trireme;
namespace golden = trireme_golden;
using test_torch::check_equal;
using test_torch::layer_against_torch;

namespace {

golden::file const layers("layers");

/// The number from which the hash tensors of a layer are counted.
std::uint64_t case_number(std::string const& name) {
    return static_cast<std::uint64_t>(layers.integers(name + ".case_number").front());
}

/// Output and gradients of a layer equal those that PyTorch's layer `name` has.
template<class Layer, class Input, class Kernels>
void check_layer(std::string const& name) {
    auto const y = layers.numbers(name + ".y"), dx = layers.numbers(name + ".dx");
    using compared = layer_against_torch<Layer, Input, Kernels>;
    compared const ours(golden::tensor<double>(100 + case_number(name), dx.size(), 1.0),
                        golden::tensor<double>(200 + case_number(name), y.size(), 1.0));
    check_equal("output", ours.y, y);
    check_equal("gradient by the input", ours.dx, dx);
    if constexpr (compared::description.parameter_count > 0) {
        auto const weights = compared::description.parameters[0].shape.size();
        auto const dp = std::span(ours.dp);
        check_equal("gradient by the weight", dp.first(weights), layers.numbers(name + ".dweight"));
        check_equal("gradient by the bias", dp.subspan(weights), layers.numbers(name + ".dbias"));
    }
}

} // namespace

TEST_SUITE("layer/golden") {
    TEST_CASE_TEMPLATE("convolutions equal PyTorch's", TestType, portable, one_sample, reference) {
        SUBCASE("kernel 3, padding 1, stride 2") {
            check_layer<conv2d<4, kernel<3>, stride<2>, padding<1>>, input<3, 7, 6>, TestType>("conv2d_k3_p1_s2");
        }
        SUBCASE("kernel 5, padding 2") {
            check_layer<conv2d<4, kernel<5>, padding<2>>, input<3, 7, 6>, TestType>("conv2d_k5_p2_s1");
        }
    }

    TEST_CASE_TEMPLATE("pooling equals PyTorch's", TestType, portable, one_sample, reference) {
        using I = input<2, 5, 6>;
        SUBCASE("average of 2 x 2, a row left over") { check_layer<avg_pool2d<2>, I, TestType>("avg_pool2d_k2_s2"); }
        SUBCASE("maximum of 2 x 2, a row left over") { check_layer<max_pool2d<2>, I, TestType>("max_pool2d_k2_s2"); }
        SUBCASE("maximum of overlapping windows") {
            check_layer<max_pool2d<3, stride<2>>, input<2, 7, 6>, TestType>("max_pool2d_k3_s2");
        }
    }

    TEST_CASE_TEMPLATE("activations and linear equal PyTorch's", TestType, portable, one_sample, reference) {
        using I = input<8>;
        SUBCASE("sigmoid") { check_layer<sigmoid, I, TestType>("sigmoid"); }
        SUBCASE("hyperbolic tangent") { check_layer<hyperbolic_tangent, I, TestType>("tanh"); }
        SUBCASE("relu") { check_layer<relu, I, TestType>("relu"); }
        SUBCASE("linear") { check_layer<linear<5>, input<7>, TestType>("linear"); }
    }

    TEST_CASE_TEMPLATE("cross entropy equals PyTorch's", TestType, portable, one_sample, reference) {
        constexpr auto lanes = TestType::template lanes<double>;
        auto const x = golden::tensor<double>(100 + case_number("cross_entropy"), 3 * 10, 1.0);
        auto const torch = layers.numbers("cross_entropy.dx");
        auto const classes = layers.integers("cross_entropy.labels");
        REQUIRE(torch.size() == 3 * 10);
        REQUIRE(classes.size() == 3);
        std::vector<double> logits(10 * lanes), gradient(10 * lanes), loss(lanes), weight(lanes);
        std::vector<int> labels(lanes);
        double mean = 0;
        for (std::size_t first = 0; first < 3; first += lanes) {
            auto const n = std::min<std::size_t>(lanes, 3 - first);
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                auto const s = first + std::min(lane, n - 1);
                labels[lane] = static_cast<int>(classes[s]);
                weight[lane] = lane < n ? 1.0 / 3.0 : 0.0;
                for (std::size_t i = 0; i < 10; ++i) logits[i * lanes + lane] = x[s * 10 + i];
            }
            using io_t = loss_io<double, double, cross_entropy, extents<10>, lanes, TestType>;
            cross_entropy::backward(io_t{
                {logits.data()}, {labels.data()}, {gradient.data()}, weight.data(), loss.data(), nullptr, TestType{}});
            for (std::size_t lane = 0; lane < n; ++lane) {
                mean += loss[lane] / 3;
                for (std::size_t i = 0; i < 10; ++i)
                    CHECK(gradient[i * lanes + lane] ==
                          doctest::Approx(torch[(first + lane) * 10 + i]).epsilon(1e-12).scale(1.0));
            }
        }
        CHECK(mean == doctest::Approx(layers.number("cross_entropy.y")).epsilon(1e-13));
    }
}

} // namespace layer_golden_test
