// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/networks.hpp>
#include <trireme/layer/names.hpp>

#include <cstddef>
#include <iterator>
#include <string>
#include <type_traits>

namespace layer_network_test {
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

/// Forks, ways and sums, counted by hand below.
using residuals =
    network<input<2, 6, 6>, conv2d<4, kernel<3>, padding<1>>,
            residual<sequential<conv2d<8, kernel<3>, padding<1>, stride<2>>, batch_norm<>, relu>,
                     conv2d<8, kernel<1>, stride<2>>>,
            residual<conv2d<8, kernel<3>, padding<1>>>, batch_norm<synchronised>, global_avg_pool2d, linear<3>>;

/// Rows of one layer agree in all that does not depend on their positions.
template<class A, class B>
bool same_layer(A const& a, B const& b) {
    auto const& d = a.description;
    auto const& e = b.description;
    bool same = a.input == b.input && d.output == e.output && d.parameter_count == e.parameter_count &&
                d.buffer_count == e.buffer_count && d.kept == e.kept && d.execution.view == e.execution.view &&
                d.execution.in_place == e.execution.in_place && d.whole_shard() == e.whole_shard() &&
                d.forward_flops == e.forward_flops && d.backward_input_flops == e.backward_input_flops &&
                d.backward_weights_flops == e.backward_weights_flops &&
                d.execution.backward_reads_input == e.execution.backward_reads_input &&
                d.execution.backward_reads_output == e.execution.backward_reads_output;
    for (int k = 0; k < d.parameter_count && same; ++k)
        same = d.parameters[k].shape == e.parameters[k].shape && d.parameters[k].fan_in == e.parameters[k].fan_in &&
               d.parameters[k].fan_out == e.parameters[k].fan_out && d.parameters[k].init == e.parameters[k].init &&
               std::string(d.parameters[k].name) == e.parameters[k].name;
    return same;
}

template<class A, class B>
void same_rows() {
    REQUIRE(A::depth == B::depth);
    for (std::size_t i = 0; i <= A::depth; ++i) {
        CAPTURE(i);
        auto const &a = A::row(i), &b = B::row(i);
        CHECK(same_layer(a, b));
        CHECK(a.from == b.from);
        CHECK(a.other == b.other);
        CHECK(a.first_parameter == b.first_parameter);
        CHECK(a.first_buffer == b.first_buffer);
        CHECK(a.first_kept == b.first_kept);
    }
    CHECK(A::parameters == B::parameters);
    CHECK(A::buffers == B::buffers);
    CHECK(A::kept == B::kept);
    CHECK(A::forward_flops == B::forward_flops);
    CHECK(A::training_flops == B::training_flops);
    CHECK(A::first_trainable == B::first_trainable);
    CHECK(A::whole_shard == B::whole_shard);
    CHECK(std::is_same_v<typename A::output_extents, typename B::output_extents>);
}

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

    TEST_CASE("a window that is larger than its image in one direction is refused, one of its size is not") {
        using conv = conv2d<1, kernel<3>>;
        static_assert(conv::describe(make_shape(1, 3, 3)).accepts);
        static_assert(!conv::describe(make_shape(1, 2, 5)).accepts && !conv::describe(make_shape(1, 5, 2)).accepts);
        static_assert(conv2d<1, kernel<3>, padding<1>>::describe(make_shape(1, 1, 1)).accepts);
        static_assert(avg_pool2d<3>::describe(make_shape(1, 3, 3)).accepts);
        static_assert(!avg_pool2d<3>::describe(make_shape(1, 2, 5)).accepts);
        static_assert(!max_pool2d<3>::describe(make_shape(1, 5, 2)).accepts);
    }

    TEST_CASE("a network of several hundred layers is within every compiler's limits") {
        static_assert(deep<256>::type::parameters == 256 * (4 * 4 + 4));
        static_assert(plan_activations<deep<256>::type>(16, 4).elements >= 256 * 4 * 16);
    }

    TEST_CASE("the table names every layer as it was written") {
        CHECK(network_table<network<input<4>, multiply>>().find("multiply ") != std::string::npos);
        auto const table = network_table<lenet>();
        for (char const* part : {"conv2d<6, kernel<5>, padding<2>>", "sigmoid", "avg_pool2d<2>", "linear<120>",
                                 "\n  6  flatten", "6 x 28 x 28", "48,120", "61,706", "845,852"}) {
            CAPTURE(part);
            CHECK(table.find(part) != std::string::npos);
        }
    }

    TEST_CASE("rows that are tied have gradients of their own, and no parameters") {
        using net = network<input<1, 4, 4>, repeat<2, conv2d<1, kernel<3>, padding<1>>, relu>, tied<2>, flatten,
                            linear<16>, named<"last", sequential<relu, tied<6>>>>;
        CHECK(net::parameters == 2 * 10 + 16 * 17);
        CHECK(net::tied_gradients == 10 + 16 * 17);
        CHECK(net::row(4).tied_to == 2);
        CHECK(net::row(4).first_parameter == net::row(5).first_parameter);
        CHECK(net::row(8).tied_to == 6);
        CHECK(net::row(8).first_tied == 10);
        for (std::size_t const row : {0u, 2u, 6u}) CHECK_FALSE(net::row(row).is_tied());
        CHECK(net::forward_flops == 3 * 2 * 9 * 16 + 3 * 16 + 2 * 2 * 16 * 16);
        auto const names = tensors_of<net>();
        REQUIRE(names.size() == 6);
        CHECK(names.back().name == "4.bias");
    }

    TEST_CASE("rows of residuals, by hand") {
        struct line {
            std::size_t from, other, channels, side, parameters, buffers, kept;
            flops_t forward;
        };
        constexpr auto no = npos;
        line const lines[] = {
            {0, no, 4, 6, 0, 0, 0, 2 * 4 * 36 * 18},    // conv2d<4, kernel<3>>: 4 * 18 + 4 parameters
            {1, 6, 4, 6, 76, 0, 0, 0},                  // fork: its second way begins with what row 5 gives
            {2, no, 8, 3, 76, 0, 0, 2 * 8 * 9 * 36},    // conv2d<8, kernel<3>, stride<2>>: 8 * 36 + 8
            {3, no, 8, 3, 372, 0, 0, 6 * 8 * 9},        // batch_norm: 16 parameters, 16 buffers, 32 kept
            {4, no, 8, 3, 388, 16, 32, 8 * 9},          // relu
            {1, no, 4, 6, 388, 16, 32, 0},              // branch: it reads what the fork reads
            {6, no, 8, 3, 388, 16, 32, 2 * 8 * 9 * 4},  // conv2d<8, kernel<1>, stride<2>>: 8 * 4 + 8
            {5, 7, 8, 3, 428, 16, 32, 8 * 9},           // sum of the body's end and the shortcut's
            {8, 11, 8, 3, 428, 16, 32, 0},              // fork
            {9, no, 8, 3, 428, 16, 32, 2 * 8 * 9 * 72}, // conv2d<8, kernel<3>>: 8 * 72 + 8
            {8, no, 8, 3, 1012, 16, 32, 0},             // branch, and nothing on it
            {10, 11, 8, 3, 1012, 16, 32, 8 * 9},        // sum
            {12, no, 8, 3, 1012, 16, 32, 6 * 8 * 9},    // batch_norm
            {13, no, 8, 1, 1028, 32, 64, 8 * 9},        // global_avg_pool2d
            {14, no, 3, 1, 1028, 32, 64, 2 * 8 * 3},    // linear<3>: 8 * 3 + 3
            {15, no, 3, 1, 1055, 32, 64, 0},            // the end
        };
        using net = residuals;
        REQUIRE(net::depth + 1 == std::size(lines));
        flops_t flops = 0;
        for (std::size_t i = 0; i <= net::depth; ++i) {
            CAPTURE(i);
            auto const& row = net::row(i);
            CHECK(row.from == lines[i].from);
            CHECK(row.other == lines[i].other);
            auto const& output = i == net::depth ? row.input : row.description.output;
            CHECK(output.extent[0] == lines[i].channels);
            CHECK((output.rank == 3 ? output.extent[1] : 1) == lines[i].side);
            CHECK(row.first_parameter == lines[i].parameters);
            CHECK(row.first_buffer == lines[i].buffers);
            CHECK(row.first_kept == lines[i].kept);
            CHECK(row.description.forward_flops == lines[i].forward);
            CHECK(row.is_fork() == (i == 1 || i == 8));
            CHECK(row.is_sum() == (i == 7 || i == 11));
            flops += lines[i].forward;
        }
        static_assert(net::parameters == 1055 && net::buffers == 32 && net::kept == 64);
        static_assert(net::first_trainable == 0 && net::whole_shard && net::whole_batch);
        CHECK(net::forward_flops == flops);
        // backward: weights of five layers; inputs of all but the first: convolutions and linear as weights,
        // 8 operations per value of a batch norm, 2 of a relu, 1 of a fork (adds two gradients) and of the pooling.
        constexpr flops_t weights = 2 * 4 * 36 * 18 + 2 * 8 * 9 * 36 + 2 * 8 * 9 * 4 + 2 * 8 * 9 * 72 + 2 * 8 * 3;
        constexpr flops_t inputs = weights - 2 * 4 * 36 * 18 + 2 * 8 * (8 * 9) + 2 * (8 * 9) + 4 * 36 + 8 * 9 + 8 * 9;
        CHECK(net::training_flops == flops + weights + inputs);
    }

    TEST_CASE("a residual's way may end with another residual, or be empty") {
        using net = network<input<3>, residual<residual<relu>, residual<sequential<>>>>;
        // fork, fork, relu, branch, sum, branch, fork, branch, sum, sum
        constexpr std::size_t from[] = {0, 1, 2, 1, 3, 0, 6, 6, 7, 5},
                              other[] = {6, 4, npos, npos, 4, npos, 8, npos, 8, 9};
        REQUIRE(net::depth == std::size(from));
        for (std::size_t i = 0; i < net::depth; ++i) {
            CAPTURE(i);
            CHECK(net::row(i).from == from[i]);
            CHECK(net::row(i).other == other[i]);
        }
    }

    TEST_CASE("repeat<N, block> has the rows of N blocks") {
        using image = input<4, 6, 6>;
        using conv = conv2d<4, kernel<3>, padding<1>>;
        using block = residual<sequential<conv, batch_norm<>, relu, conv>, sequential<dropout<percent<10>>, conv>>;
        same_rows<network<image, conv, repeat<3, block, relu>, flatten, linear<2>>,
                  network<image, conv, block, relu, block, relu, block, relu, flatten, linear<2>>>();
        same_rows<network<image, repeat<1, block>>, network<image, block>>();
        same_rows<network<image, repeat<2, relu, repeat<2, residual<conv>>>>,
                  network<image, relu, residual<conv>, residual<conv>, relu, residual<conv>, residual<conv>>>();
        same_rows<network<image, residual<repeat<2, residual<relu>>, repeat<3, conv>>, flatten, linear<3>>,
                  network<image, residual<sequential<residual<relu>, residual<relu>>, sequential<conv, conv, conv>>,
                          flatten, linear<3>>>();
        same_rows<network<image, repeat<2, repeat<3, batch_norm<>>>>,
                  network<image, batch_norm<>, batch_norm<>, batch_norm<>, batch_norm<>, batch_norm<>, batch_norm<>>>();
    }

    TEST_CASE("sequential and named are no rows") {
        same_rows<network<input<8>, sequential<linear<4>, sequential<>, sequential<relu, named<"out", linear<2>>>>>,
                  network<input<8>, linear<4>, relu, linear<2>>>();
    }

    TEST_CASE("the table names the parts of a residual, and each repetition") {
        auto const table =
            network_table<network<input<1, 4, 4>, repeat<2, residual<conv2d<1, kernel<3>, padding<1>>>>>>();
        std::size_t convolutions = 0, sums = 0;
        for (auto at = table.find("conv2d<1, kernel<3>, padding<1>>"); at != std::string::npos;
             at = table.find("conv2d<1, kernel<3>, padding<1>>", at + 1))
            ++convolutions;
        for (auto at = table.find("+ shortcut"); at != std::string::npos; at = table.find("+ shortcut", at + 1)) ++sums;
        CHECK(convolutions == 2);
        CHECK(sums == 2);
        CHECK(table.find("fork") == std::string::npos);
        for (char const* line : {"\n  1  conv2d", "\n  3    + shortcut", "\n  5  conv2d", "\n  7    + shortcut"}) {
            CAPTURE(line);
            CHECK(table.find(line) != std::string::npos);
        }
    }
}

} // namespace layer_network_test
