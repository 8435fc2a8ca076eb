// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <trireme/trireme.hpp>

#include <trireme/kernels/reference/activation.hpp>
#include <trireme/kernels/reference/add.hpp>
#include <trireme/kernels/reference/batch_norm.hpp>
#include <trireme/kernels/reference/conv2d.hpp>
#include <trireme/kernels/reference/dropout.hpp>
#include <trireme/kernels/reference/linear.hpp>

namespace layer_combinators_test {
using namespace trireme;

namespace {

template<std::size_t C, std::size_t S = 1>
using conv3 = conv2d<C, kernel<3>, padding<1>, stride<S>>;
template<std::size_t C, std::size_t S = 1>
using conv1 = conv2d<C, kernel<1>, stride<S>>;
// no kinks, so that any numbers will do
using curve = hyperbolic_tangent;

template<class Norm, std::size_t C, std::size_t S = 1>
using body = sequential<conv3<C, S>, Norm, curve, conv3<C>, Norm>;
template<class Norm, std::size_t C>
using preactivated = sequential<Norm, curve, conv3<C>, Norm, curve, conv3<C>>;

/// y = x + s x in one layer, with one slope s: what a residual would be, had it not been taken apart.
template<bool RightBackward>
struct own_residual {
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        d.parameter_count = 1;
        d.parameters[0] = {"slope", make_shape(1), 1, 1, initial::ones};
        d.execution.backward_reads_output = false;
        return d;
    }
    static void forward(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.x[i] + io.parameter(0)[0] * io.x[i];
    }
    static void backward_input(auto const& io) { // without the first term: the shortcut's gradient is forgotten
        for (std::size_t i = 0; i < io.dx.size(); ++i)
            io.dx[i] = (RightBackward ? 1 : 0) * io.dy[i] + io.parameter(0)[0] * io.dy[i];
    }
    static void backward_weights(auto const& io) {
        for (std::size_t i = 0; i < io.x.size(); ++i) io.gradient(0)[0] += io.x[i] * io.dy[i];
    }
};

/// N residuals, each in the one before.
template<int N>
struct nested {
    using type = residual<sequential<relu, typename nested<N - 1>::type>>;
};
template<>
struct nested<0> {
    using type = relu;
};

} // namespace

TEST_SUITE("layer/combinators") {
    TEST_CASE("residuals in residuals, as many as one likes") {
        using net = network<input<4>, nested<20>::type, linear<2>>;
        static_assert(net::depth == 20 * 4 + 2); // fork, relu, branch and sum of each, the innermost relu, linear
        auto const &outermost = net::row(0), &last_sum = net::row(net::depth - 2);
        CHECK(outermost.is_fork());
        CHECK(last_sum.is_sum());
        CHECK(last_sum.other == outermost.other);
    }

    TEST_CASE_TEMPLATE("residuals: backward is the derivative of forward", Kernels, portable, reference) {
        using in = input<3, 4, 5>;
        CHECK(check_gradients<residual<conv3<3>>, in, Kernels>().ok());
        CHECK(check_gradients<residual<sequential<conv3<2>, curve, conv3<3>>>, in, Kernels>().ok());
        CHECK(check_gradients<residual<body<batch_norm<>, 3>>, in, Kernels>().ok());
        CHECK(check_gradients<residual<body<batch_norm<>, 4, 2>, conv1<4, 2>>, in, Kernels>().ok());
        CHECK(check_gradients<residual<conv1<4, 2>, body<batch_norm<synchronised>, 4, 2>>, in, Kernels>().ok());
        CHECK(check_gradients<residual<preactivated<batch_norm<>, 3>>, in, Kernels>().ok());
        CHECK(check_gradients<repeat<2, residual<body<batch_norm<>, 3>>, curve>, in, Kernels>().ok());
        CHECK(
            check_gradients<residual<sequential<conv3<3>, residual<dropout<percent<50>>>, curve>>, in, Kernels>().ok());
        CHECK(check_gradients<residual<sequential<flatten, linear<4>, sigmoid>, sequential<flatten, linear<4>>>, in,
                              Kernels>()
                  .ok());
    }

    TEST_CASE("residuals with empty ways, and with ways without parameters") {
        using in = input<2, 3, 4>;
        CHECK(check_gradients<residual<sequential<>>, in>().ok()); // 2 x
        CHECK(check_gradients<residual<sequential<>, conv3<2>>, in>().ok());
        CHECK(check_gradients<residual<curve>, in>().ok());
        CHECK(check_gradients<residual<sequential<curve, sigmoid>, curve>, in>().ok());
        CHECK(check_gradients<residual<dropout<percent<50>>, sequential<conv3<2>, dropout<percent<30>>>>, in>().ok());
        CHECK(check_gradients<residual<flatten, sequential<flatten, curve>>, in>().ok());
        CHECK(check_gradients<residual<batch_norm<>, batch_norm<>>, in>().ok());
    }

    TEST_CASE("residuals inside residuals, in either way") {
        using in = input<2, 4, 4>;
        using inner = residual<sequential<curve, conv3<2>>>;
        CHECK(check_gradients<residual<inner>, in>().ok()); // two forks and two sums side by side
        CHECK(check_gradients<residual<sequential<inner, batch_norm<>, inner>>, in>().ok());
        CHECK(check_gradients<residual<conv3<2>, inner>, in>().ok());
        CHECK(check_gradients<residual<sequential<conv3<3, 2>, residual<body<batch_norm<>, 3>>, curve>,
                                       sequential<residual<conv1<2>>, conv1<3, 2>>>,
                              in>()
                  .ok());
        CHECK(check_gradients<residual<residual<residual<residual<curve>>>, residual<sequential<>>>, in>().ok());
    }

    TEST_CASE("repeats, of layers, of residuals, of repeats") {
        using in = input<2, 4, 3>;
        CHECK(check_gradients<repeat<3, conv3<2>, curve>, in>().ok());
        CHECK(check_gradients<repeat<3, residual<body<batch_norm<>, 2>>, curve>, in>().ok());
        CHECK(check_gradients<repeat<2, residual<preactivated<batch_norm<synchronised>, 2>>>, in>().ok());
        CHECK(check_gradients<repeat<2, repeat<2, residual<conv3<2>>>, curve>, in>().ok());
        CHECK(check_gradients<residual<repeat<2, residual<conv3<2>>, batch_norm<>>>, in>().ok());
        CHECK(check_gradients<sequential<residual<conv3<4, 2>, conv1<4, 2>>, repeat<1, residual<curve>>, flatten,
                                         repeat<2, linear<16>, sigmoid>>,
                              in>()
                  .ok());
        CHECK(check_gradients<repeat<2, dropout<percent<40>>, conv3<2>>, in>().ok());
    }

    TEST_CASE("the blocks of He et al., with their kinks") {
        using in = input<3, 6, 6>;
        using block = sequential<conv3<3>, batch_norm<>, relu, conv3<3>, batch_norm<>>;
        CHECK(check_gradients<sequential<repeat<2, residual<block>, relu>, global_avg_pool2d, linear<2>>, in>().ok());
    }

    TEST_CASE("the checker finds what is wrong inside a residual or a repeat") {
        using in = input<2, 3, 4>;
        CHECK(check_gradients<sequential<own_residual<true>>, in>().ok());
        CHECK(check_gradients<sequential<own_residual<false>>, in>().input_error > 0.1);
        CHECK(check_gradients<residual<own_residual<true>>, in>().ok());
        CHECK(check_gradients<residual<own_residual<false>>, in>().input_error > 0.1);
        CHECK(check_gradients<residual<sequential<>, own_residual<false>>, in>().input_error > 0.1);
        CHECK(check_gradients<residual<residual<own_residual<false>>>, in>().input_error > 0.1);
        CHECK(check_gradients<repeat<2, own_residual<true>>, in>().ok());
        CHECK_FALSE(check_gradients<repeat<2, own_residual<false>>, in>().ok());
        CHECK_FALSE(check_gradients<repeat<2, residual<own_residual<false>>, curve>, in>().ok());
    }
}

} // namespace layer_combinators_test
