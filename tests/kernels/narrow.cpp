// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels for narrow granules against the naive ones, sample by sample.

#include <trireme/kernels/reference.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace kernels_narrow_test {
using namespace trireme;

namespace {

/// Made-up numbers of a granule, and those of one of its samples.
template<class T>
std::vector<T> made_up(std::size_t n, std::uint64_t seed) {
    random_stream const random(seed, random_purpose::user);
    std::vector<T> all(n);
    for (std::size_t i = 0; i < n; ++i) all[i] = static_cast<T>(2 * random.uniform(i) - 1);
    return all;
}
template<class T>
std::vector<T> sample(std::vector<T> const& granule, std::size_t values, std::size_t lanes, std::size_t lane) {
    std::vector<T> one(values);
    for (std::size_t i = 0; i < values; ++i) one[i] = granule[i * lanes + lane];
    return one;
}

/// A layer's kernels on a narrow granule, and the reference's on each of its samples. Memory is that of a full granule;
/// behind the narrow one it is no number, which must spoil nothing.
template<class Layer, class In, class T>
void check_layer(std::size_t divisor) {
    constexpr std::size_t full = full_register<T>;
    std::size_t const narrow = full / divisor;
    using in = typename In::extents;
    static constexpr auto description = Layer::describe(in::shape);
    static constexpr auto const& of = description.output.extent;
    using out = to_extents<description.output.rank, of[0], of[1], of[2], of[3]>;
    static_assert(Layer::template takes_narrow<in, full, T, portable>());
    constexpr std::size_t parameters = description.parameter_elements();
    auto const no_number = std::numeric_limits<T>::quiet_NaN();
    auto const granule = [&](std::size_t values, std::uint64_t seed) {
        auto all = made_up<T>(values * narrow, seed);
        all.resize(values * full, no_number);
        return all;
    };
    auto const x = granule(in::size, 1), dy = granule(out::size, 2), w = made_up<T>(parameters, 3);
    std::vector<T> y(out::size * full, no_number), dx(in::size * full, no_number), dw = made_up<T>(parameters, 4);
    std::vector<T> expected_dw = dw;

    portable policy;
    policy.narrow = narrow;
    detail::layer_operands<T, T> const at{x.data(), y.data(), dy.data(), dx.data(), w.data(), dw.data(), {}};
    using calls = detail::layer_calls<Layer, in, out, full, T>;
    calls::template run<detail::row_call::forward>(policy, at);
    calls::template run<detail::row_call::backward_input>(policy, at);
    if constexpr (parameters != 0) calls::template run<detail::row_call::backward_weights>(policy, at);

    auto const near = [](std::vector<T> const& got, std::vector<T> const& wanted) {
        double worst = 0, largest = 1;
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            auto const off = std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i]));
            worst = std::isnan(off) ? 1 : std::max(worst, off);
            largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
        }
        return worst <= 100 * static_cast<double>(std::numeric_limits<T>::epsilon()) * largest;
    };
    using single = detail::layer_calls<Layer, in, out, 1, T>;
    for (std::size_t lane = 0; lane < narrow; ++lane) {
        auto const one_x = sample(x, in::size, narrow, lane), one_dy = sample(dy, out::size, narrow, lane);
        std::vector<T> one_y(out::size), one_dx(in::size);
        detail::layer_operands<T, T> const one{
            one_x.data(), one_y.data(), one_dy.data(), one_dx.data(), w.data(), expected_dw.data(), {}};
        single::template run<detail::row_call::forward>(reference{}, one);
        single::template run<detail::row_call::backward_input>(reference{}, one);
        if constexpr (parameters != 0) single::template run<detail::row_call::backward_weights>(reference{}, one);
        CHECK(near(sample(y, out::size, narrow, lane), one_y));
        CHECK(near(sample(dx, in::size, narrow, lane), one_dx));
    }
    CHECK(near(dw, expected_dw));
}

/// Layers of one kind on narrow granules of both widths, in both types.
template<class Layer, class In>
void check() {
    for (std::size_t divisor = 2; divisor <= 4; divisor *= 2) {
        CAPTURE(divisor);
        if constexpr (full_register<float> >= 8) check_layer<Layer, In, float>(divisor);
        if constexpr (full_register<double> >= 8) check_layer<Layer, In, double>(divisor);
    }
}

/// Functions of a layer of one's own: each feature of a sample has a slope of its own.
struct by_feature {
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        for (std::size_t i = 0; i < io.x.size(); ++i)
            io.y[i] = io.x[i] > 0 ? io.x[i] * static_cast<float>(i / io_t::lanes % 5) : 0;
    }
    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        for (std::size_t i = 0; i < io.x.size(); ++i)
            io.dx[i] = io.y[i] > 0 ? io.dy[i] * static_cast<float>(i / io_t::lanes % 5) : 0;
    }
};
template<class Base>
struct derived : Base { // with all other members of a layer of the library
    static void forward(auto const& io) { by_feature::forward(io); }
    static void backward_input(auto const& io) { by_feature::backward_input(io); }
};
template<class Base>
struct by_itself : by_feature {
    static constexpr layer_description describe(shape in) { return Base::describe(in); }
};

template<class Layer>
std::vector<float> trained(std::size_t samples) {
    auto const x = made_up<float>(36 * samples, 7), y = made_up<float>(samples, 8);
    samples_in_memory const all(x, make_shape(1, 6, 6), y, make_shape(1));
    using net = network<input<1, 6, 6>, conv2d<3, kernel<3>, padding<1>>, Layer, flatten, linear<1>>;
    trainer<net, mean_squared_error, sgd> t{{.learning_rate = 0.05f, .batch = samples, .seed = 3}};
    std::vector<float> told;
    for (int step = 0; step < 3; ++step) told.push_back(static_cast<float>(t.step(all).loss));
    told.push_back(static_cast<float>(t.evaluate(all).loss));
    auto const parameters = t.gather_parameters();
    told.insert(told.end(), parameters.begin(), parameters.end());
    return told;
}

template<class Net>
constexpr bool narrows = detail::takes_narrow<Net, portable, float, full_register<float>>();
template<class... Layers>
using with = network<input<8, 8, 8>, Layers..., flatten, linear<1>>;
struct same_function : relu {};
struct same_pooling : avg_pool2d<2> {};
struct same_maximum : max_pool2d<2> {};
struct same_linear : linear<32> {};
struct same_convolution : conv2d<8, kernel<1>> {};
static_assert(full_register<float> < 8 ||
              (narrows<with<relu, avg_pool2d<2>>> && narrows<with<conv2d<8, kernel<1>>, max_pool2d<2>>> &&
               narrows<with<flatten, linear<32>, gelu>> && narrows<with<sigmoid, hyperbolic_tangent, gelu_tanh>>));
static_assert(!narrows<with<same_function>> && !narrows<with<same_pooling>> && !narrows<with<same_maximum>> &&
              !narrows<with<flatten, same_linear>> && !narrows<with<same_convolution>>);

} // namespace

TEST_SUITE("kernels/narrow") {
    TEST_CASE("a layer that derives from one with kernels for narrow granules computes by its own functions") {
        for (std::size_t const samples : {1u, 3u, 7u, 11u, 19u, 35u}) {
            CAPTURE(samples);
            CHECK(trained<derived<relu>>(samples) == trained<by_itself<relu>>(samples));
        }
    }
    TEST_CASE("convolutions") {
        check<conv2d<6, kernel<5>, padding<2>>, input<1, 28, 28>>();
        check<conv2d<16, kernel<5>>, input<6, 14, 14>>();
        check<conv2d<3, kernel<3>, padding<1>>, input<2, 5, 7>>(); // rows that registers do not divide
        check<conv2d<11, kernel<1>>, input<5, 4, 4>>();
        check<conv2d<9, kernel<7>, padding<6>>, input<1, 4, 5>>();
    }
    TEST_CASE("convolutions whose rows and channels take several panels") {
        check<conv2d<2, kernel<3>, padding<1>>, input<3, 90, 100>>();
        check<conv2d<4, kernel<3>, padding<1>>, input<40, 9, 9>>();
    }
    TEST_CASE("linear layers") {
        check<linear<10>, input<32>>();
        check<linear<120>, input<400>>();
        check<linear<1>, input<36>>();
        check<linear<300, without_bias>, input<44>>(); // more outputs than are copied at a time
        check<linear<7>, input<1100>>();               // more inputs
    }
    TEST_CASE("pooling and functions") {
        check<avg_pool2d<2>, input<3, 6, 8>>();
        check<avg_pool2d<3, stride<2>>, input<2, 7, 7>>();
        check<max_pool2d<2>, input<3, 6, 8>>();
        check<max_pool2d<3, stride<2>>, input<2, 7, 7>>();
        check<sigmoid, input<5>>();
        check<relu, input<3, 5>>();
        check<hyperbolic_tangent, input<7>>();
    }
}

} // namespace kernels_narrow_test
