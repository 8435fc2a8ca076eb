// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <golden/hash.hpp>
#include <golden/layers.hpp>
#include <trireme/trireme.hpp>

#include <trireme/device/host/kernels/reference/activation.hpp>
#include <trireme/device/host/kernels/reference/conv2d.hpp>
#include <trireme/device/host/kernels/reference/linear.hpp>
#include <trireme/device/host/kernels/reference/pool2d.hpp>
#include <trireme/device/host/kernels/reference/softmax_cross_entropy.hpp>

#include "one_sample.hpp"

#include <algorithm>
#include <vector>

using namespace trireme;
namespace golden = trireme_golden;

namespace {

/// Runs a layer forward and backward on PyTorch's samples, spread over as many granules as needed, and compares.
template<class Layer, class Input, class Kernels>
struct layer_against_torch {
    using T = double;
    using net = network<Input, Layer>;
    using In = typename Input::extents;
    using Out = typename net::output_extents;
    static constexpr std::size_t lanes = Kernels::template lanes<T>;
    static constexpr auto description = net::row(0).description;

    std::vector<T> y, dx, dp;

    layer_against_torch(int case_number, std::size_t samples) : dp(net::parameters) {
        auto const c = static_cast<std::uint64_t>(case_number);
        auto const x = golden::tensor<T>(100 + c, samples * In::size, 1.0);
        auto const dy = golden::tensor<T>(200 + c, samples * Out::size, 1.0);
        auto const p = golden::parameters<net, T>();
        y.resize(samples * Out::size);
        dx.resize(samples * In::size);
        for (std::size_t first = 0; first < samples; first += lanes) {
            std::vector<T> gx(In::size * lanes), gy(Out::size * lanes), gdy(Out::size * lanes), gdx(In::size * lanes);
            auto const n = std::min(lanes, samples - first);
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                auto const s = first + std::min(lane, n - 1);
                for (std::size_t i = 0; i < In::size; ++i) gx[i * lanes + lane] = x[s * In::size + i];
                for (std::size_t i = 0; i < Out::size; ++i)
                    gdy[i * lanes + lane] = lane < n ? dy[s * Out::size + i] : 0.0;
            }
            detail::run_forward<Layer, In, Out, lanes, Kernels, T>(Kernels{}, gx.data(), gy.data(), p.data());
            detail::run_backward_input<Layer, In, Out, lanes, Kernels, T>(Kernels{}, gx.data(), gy.data(), gdy.data(),
                                                                          gdx.data(), p.data());
            if constexpr (description.parameter_count > 0)
                detail::run_backward_weights<Layer, In, Out, lanes, Kernels, T>(Kernels{}, gx.data(), gy.data(),
                                                                                gdy.data(), p.data(), dp.data());
            for (std::size_t lane = 0; lane < n; ++lane) {
                for (std::size_t i = 0; i < Out::size; ++i) y[(first + lane) * Out::size + i] = gy[i * lanes + lane];
                for (std::size_t i = 0; i < In::size; ++i) dx[(first + lane) * In::size + i] = gdx[i * lanes + lane];
            }
        }
    }
};

template<std::size_t N>
void check_equal(char const* what, std::vector<double> const& ours, double const (&torch)[N], std::size_t from = 0) {
    CAPTURE(what);
    REQUIRE(ours.size() >= from + N);
    for (std::size_t i = 0; i < N; ++i) {
        CAPTURE(i);
        CHECK(ours[from + i] == doctest::Approx(torch[i]).epsilon(1e-12).scale(1.0));
    }
}

} // namespace

#define AGAINST_TORCH(Golden, ...)                                                                                     \
    namespace g = golden::layers::Golden;                                                                              \
    layer_against_torch<__VA_ARGS__, TestType> const ours(g::case_number, static_cast<std::size_t>(g::x_shape[0]));    \
    check_equal("output", ours.y, g::y);                                                                               \
    check_equal("gradient by the input", ours.dx, g::dx)

TEST_SUITE("layer/golden") {
    TEST_CASE_TEMPLATE("convolutions equal PyTorch's", TestType, portable, one_sample, reference) {
        SUBCASE("kernel 3, padding 1, stride 2") {
            using L = conv2d<4, kernel<3>, stride<2>, padding<1>>;
            using I = input<3, 7, 6>;
            AGAINST_TORCH(conv2d_k3_p1_s2, L, I);
            check_equal("gradient by the weight", ours.dp, g::dweight);
            check_equal("gradient by the bias", ours.dp, g::dbias, std::size(g::dweight));
        }
        SUBCASE("kernel 5, padding 2") {
            using L = conv2d<4, kernel<5>, padding<2>>;
            using I = input<3, 7, 6>;
            AGAINST_TORCH(conv2d_k5_p2_s1, L, I);
            check_equal("gradient by the weight", ours.dp, g::dweight);
            check_equal("gradient by the bias", ours.dp, g::dbias, std::size(g::dweight));
        }
    }

    TEST_CASE_TEMPLATE("pooling equals PyTorch's", TestType, portable, one_sample, reference) {
        using I = input<2, 5, 6>;
        SUBCASE("average of 2 x 2, a row left over") {
            using L = avg_pool2d<2>;
            AGAINST_TORCH(avg_pool2d_k2_s2, L, I);
        }
        SUBCASE("maximum of 2 x 2, a row left over") {
            using L = max_pool2d<2>;
            AGAINST_TORCH(max_pool2d_k2_s2, L, I);
        }
        SUBCASE("maximum of overlapping windows") {
            using L = max_pool2d<3, stride<2>>;
            using J = input<2, 7, 6>;
            AGAINST_TORCH(max_pool2d_k3_s2, L, J);
        }
    }

    TEST_CASE_TEMPLATE("activations and linear equal PyTorch's", TestType, portable, one_sample, reference) {
        using I = input<8>;
        SUBCASE("sigmoid") {
            using L = sigmoid;
            AGAINST_TORCH(sigmoid, L, I);
        }
        SUBCASE("hyperbolic tangent") {
            using L = hyperbolic_tangent;
            AGAINST_TORCH(tanh, L, I);
        }
        SUBCASE("relu") {
            using L = relu;
            AGAINST_TORCH(relu, L, I);
        }
        SUBCASE("linear") {
            using L = linear<5>;
            using J = input<7>;
            AGAINST_TORCH(linear, L, J);
            check_equal("gradient by the weight", ours.dp, g::dweight);
            check_equal("gradient by the bias", ours.dp, g::dbias, std::size(g::dweight));
        }
    }

    TEST_CASE_TEMPLATE("cross entropy equals PyTorch's", TestType, portable, one_sample, reference) {
        namespace g = golden::layers::cross_entropy;
        constexpr auto lanes = TestType::template lanes<double>;
        auto const x = golden::tensor<double>(100 + g::case_number, 3 * 10, 1.0);
        std::vector<double> logits(10 * lanes), gradient(10 * lanes), loss(lanes), weight(lanes);
        std::vector<int> labels(lanes);
        double mean = 0;
        for (std::size_t first = 0; first < 3; first += lanes) {
            auto const n = std::min<std::size_t>(lanes, 3 - first);
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                auto const s = first + std::min(lane, n - 1);
                labels[lane] = g::labels[s];
                weight[lane] = lane < n ? 1.0 / 3.0 : 0.0;
                for (std::size_t i = 0; i < 10; ++i) logits[i * lanes + lane] = x[s * 10 + i];
            }
            cross_entropy::gradient<extents<10>, lanes>(TestType{}, logits.data(), labels.data(), weight.data(),
                                                        gradient.data(), loss.data());
            for (std::size_t lane = 0; lane < n; ++lane) {
                mean += loss[lane] / 3;
                for (std::size_t i = 0; i < 10; ++i)
                    CHECK(gradient[i * lanes + lane] ==
                          doctest::Approx(g::dx[(first + lane) * 10 + i]).epsilon(1e-12).scale(1.0));
            }
        }
        CHECK(mean == doctest::Approx(g::y[0]).epsilon(1e-13));
    }
}
