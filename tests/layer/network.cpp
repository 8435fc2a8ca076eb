// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <networks.hpp>

#include <string>

using namespace trireme;
using test_networks::lenet;

namespace {

template<std::size_t>
using one_more = linear<4>;

struct multiply : relu {};

/// N linear layers and a relu.
template<std::size_t N, class = std::make_index_sequence<N>>
struct deep;
template<std::size_t N, std::size_t... I>
struct deep<N, std::index_sequence<I...>> {
    using type = network<input<4>, one_more<I>..., relu>;
};

} // namespace

TEST_SUITE("layer/network") {
    TEST_CASE("shapes, parameters and FLOPs of LeNet are constants") {
        static_assert(lenet::depth == 12);
        static_assert(lenet::parameters == 61706);
        static_assert(lenet::row(0).description.output == make_shape(6, 28, 28));
        static_assert(lenet::row(3).description.output == make_shape(16, 10, 10));
        static_assert(lenet::row(6).description.output == make_shape(400));
        static_assert(lenet::row(12).input == make_shape(10));
        static_assert(lenet::row(3).description.parameter_elements() == 16 * 6 * 25 + 16);
        static_assert(lenet::row(3).first_parameter == 6 * 25 + 6);
        static_assert(lenet::row(0).description.forward_flops == 2 * 6 * 28 * 28 * 25);
        static_assert(lenet::row(7).description.forward_flops == 2 * 400 * 120);
        static_assert(std::is_same_v<lenet::output_extents, extents<10>>);
        CHECK(lenet::forward_flops > 800'000);
    }

    TEST_CASE("the first layer's input gradient is not counted, for it is not computed") {
        using one = network<input<8>, linear<4>>;
        static_assert(one::training_flops == one::forward_flops + one::row(0).description.backward_weights_flops);
        using behind = network<input<8>, relu, linear<4>>;
        static_assert(behind::first_trainable == 1);
        static_assert(behind::training_flops == behind::forward_flops + 2 * 8 * 4);
    }

    TEST_CASE("strides, padding and leftover rows follow the usual formula") {
        using net = network<input<3, 11, 7>, conv2d<4, kernel<3>, stride<2>, padding<1>>, max_pool2d<2>,
                            avg_pool2d<2, stride<1>>>;
        static_assert(net::row(0).description.output == make_shape(4, 6, 4));
        static_assert(net::row(1).description.output == make_shape(4, 3, 2));
        static_assert(net::row(2).description.output == make_shape(4, 2, 1));
    }

    TEST_CASE("a network of several hundred layers is within every compiler's limits") {
        static_assert(deep<256>::type::parameters == 256 * (4 * 4 + 4));
        static_assert(plan_activations<deep<256>::type>(16, 4).elements >= 256 * 4 * 16);
    }

    TEST_CASE("the table names every layer as it was written") {
        CHECK(network_table<network<input<4>, multiply>>().find("multiply ") != std::string::npos);
        auto const table = network_table<lenet>();
        for (char const* part : {"conv2d<6, kernel<5>, padding<2>>", "sigmoid", "avg_pool2d<2>", "linear<120>",
                                 "flatten", "6 x 28 x 28", "48,120", "61,706", "845,852"}) {
            CAPTURE(part);
            CHECK(table.find(part) != std::string::npos);
        }
    }
}
