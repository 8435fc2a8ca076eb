// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/blocks/pool2d.hpp>
#include <trireme/kernels/reference/pool2d.hpp>

#include <kernels/blocks/rig.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

namespace device_blocks_pool2d_test {
using namespace trireme;
using namespace blocks_test;

namespace {

template<class G>
constexpr std::size_t inputs = G::channels * G::height * G::width;
template<class G>
constexpr std::size_t outputs = G::channels * G::out_height * G::out_width;

template<class T>
std::vector<T> as_stored(std::vector<accumulate_t<T>> const& wide) {
    std::vector<T> stored;
    for (auto const value : wide) stored.push_back(static_cast<T>(value));
    return stored;
}

/// Results have the reference's bits: a sum of gradients has its terms in the order of the windows.
template<class G, class T>
void maxima_equal_reference(std::size_t samples, std::vector<T> const& x, std::vector<T> const& dy) {
    using test_support::same_bits;
    auto const wx = wide(x), wdy = wide(dy);
    auto wy = wide(unset<T>(dy.size())), wdx = wide(unset<T>(x.size()));
    for (std::size_t n = 0; n < samples; ++n) {
        auto const *const xn = wx.data() + n * inputs<G>, *const dyn = wdy.data() + n * outputs<G>;
        auto* const yn = wy.data() + n * outputs<G>;
        max_pool2d_forward<G, 1>(reference{}, xn, yn);
        max_pool2d_backward_input<G, 1>(reference{}, xn, yn, dyn, wdx.data() + n * inputs<G>);
    }
    auto const expected_y = as_stored<T>(wy), expected_dx = as_stored<T>(wdx);

    auto y = unset<T>(dy.size()), dx = unset<T>(x.size());
    CHECK(same_in_every_order(samples, 0, y,
                              [&](rehearsal_kernels const& k) { max_pool2d_forward<G, 1>(k, x.data(), y.data()); }));
    CHECK(same_bits(y, expected_y));
    CHECK(same_in_every_order(samples, 0, dx, [&](rehearsal_kernels const& k) {
        max_pool2d_backward_input<G, 1>(k, x.data(), y.data(), dy.data(), dx.data());
    }));
    CHECK(same_bits(dx, expected_dx));
    if constexpr (G::kernel <= 16) {
        y = unset<T>(dy.size());
        dx = unset<T>(x.size());
        std::vector<std::uint8_t> places(y.size(), 255);
        CHECK(same_in_every_order(samples, 0, places, [&](rehearsal_kernels const& k) {
            max_pool2d_forward<G, 1>(k, x.data(), y.data(), places.data());
        }));
        CHECK(same_bits(y, expected_y));
        CHECK(same_in_every_order(samples, 0, dx, [&](rehearsal_kernels const& k) {
            std::uint8_t const* const saved = places.data();
            max_pool2d_backward_input<G, 1>(k, saved, dy.data(), dx.data());
        }));
        CHECK(same_bits(dx, expected_dx));
    }
}

template<class G, class T>
void blocks_equal_reference(std::size_t samples) {
    using number = accumulate_t<T>;
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(G::channels);
    CAPTURE(G::height);
    CAPTURE(G::width);
    CAPTURE(G::kernel);
    CAPTURE(G::stride);
    CAPTURE(samples);
    CAPTURE(sizeof(T));
    auto x = uniform<T>(0, inputs<G> * samples);
    auto const dy = uniform<T>(1, outputs<G> * samples);
    auto wx = wide(x), wdy = wide(dy), expected_y = wide(unset<T>(dy.size())), expected_dx = wide(unset<T>(x.size()));
    auto y = unset<T>(dy.size()), dx = unset<T>(x.size());
    CHECK(same_in_every_order(samples, 0, y,
                              [&](rehearsal_kernels const& k) { avg_pool2d_forward<G, 1>(k, x.data(), y.data()); }));
    CHECK(same_in_every_order(
        samples, 0, dx, [&](rehearsal_kernels const& k) { avg_pool2d_backward_input<G, 1>(k, dy.data(), dx.data()); }));
    for (std::size_t n = 0; n < samples; ++n) {
        avg_pool2d_forward<G, 1>(reference{}, wx.data() + n * inputs<G>, expected_y.data() + n * outputs<G>);
        avg_pool2d_backward_input<G, 1>(reference{}, wdy.data() + n * outputs<G>, expected_dx.data() + n * inputs<G>);
    }
    CHECK(apart(y, expected_y, G::kernel * G::kernel) <= 1);
    CHECK(apart(dx, expected_dx, G::kernel * G::kernel) <= 1);

    for (bool const rectified : {false, true}) { // five values, or three, so that most windows have ties
        CAPTURE(rectified);
        for (std::size_t i = 0; i < x.size(); ++i) {
            wx[i] = std::round(2 * wx[i]) / 2;
            if (rectified) wx[i] = relu_function::value(wx[i]);
            x[i] = static_cast<T>(wx[i]);
        }
        maxima_equal_reference<G>(samples, x, dy);
    }
    number const nan = std::numeric_limits<number>::quiet_NaN();
    for (std::size_t i = 0; i < x.size(); i += 3) x[i] = static_cast<T>(nan); // several in a window
    maxima_equal_reference<G>(samples, x, dy);
}

template<class G, class T>
void means_of_channels_equal_reference(std::size_t samples) {
    CAPTURE(G::channels);
    CAPTURE(G::positions);
    CAPTURE(samples);
    constexpr std::size_t size = G::channels * G::positions;
    auto const x = uniform<T>(0, size * samples), dy = uniform<T>(1, G::channels * samples);
    auto const wx = wide(x), wdy = wide(dy);
    auto y = unset<T>(dy.size()), dx = unset<T>(x.size());
    auto expected_y = wdy, expected_dx = wx;
    CHECK(same_in_every_order(
        samples, 0, y, [&](rehearsal_kernels const& k) { global_avg_pool2d_forward<G, 1>(k, x.data(), y.data()); }));
    CHECK(same_in_every_order(samples, 0, dx, [&](rehearsal_kernels const& k) {
        global_avg_pool2d_backward_input<G, 1>(k, dy.data(), dx.data());
    }));
    for (std::size_t n = 0; n < samples; ++n) {
        global_avg_pool2d_forward<G, 1>(reference{}, wx.data() + n * size, expected_y.data() + n * G::channels);
        global_avg_pool2d_backward_input<G, 1>(reference{}, wdy.data() + n * G::channels,
                                               expected_dx.data() + n * size);
    }
    CHECK(apart(y, expected_y, G::positions) <= 1);
    CHECK(apart(dx, expected_dx, 1) <= 1);
}

} // namespace

TEST_SUITE("kernels/blocks/pool2d") {
    TEST_CASE("blocks equal the reference") {
        for (std::size_t const samples : std::initializer_list<std::size_t>{1, 2, 5, 33}) {
            blocks_equal_reference<pool2d_geometry<3, 7, 9, 2, 2>, float>(samples);  // a row and a column left over
            blocks_equal_reference<pool2d_geometry<2, 8, 7, 3, 2>, double>(samples); // windows overlap
            blocks_equal_reference<pool2d_geometry<2, 8, 7, 3, 2>, bf16>(samples);
        }
        blocks_equal_reference<pool2d_geometry<6, 28, 28, 2, 2>, float>(3); // LeNet's first
        blocks_equal_reference<pool2d_geometry<1, 5, 11, 2, 3>, float>(4);  // gaps between windows
        blocks_equal_reference<pool2d_geometry<2, 4, 4, 4, 1>, float>(4);   // window = image
        blocks_equal_reference<pool2d_geometry<2, 3, 3, 1, 1>, float>(4);
        blocks_equal_reference<pool2d_geometry<1, 6, 6, 3, 1>, double>(4);
        blocks_equal_reference<pool2d_geometry<1, 18, 17, 16, 1>, float>(3); // as many places as a byte has values
        blocks_equal_reference<pool2d_geometry<1, 18, 17, 17, 1>, float>(3); // more
    }

    TEST_CASE("means of whole channels equal the reference") {
        for (std::size_t const samples : std::initializer_list<std::size_t>{1, 2, 5, 33}) {
            means_of_channels_equal_reference<channel_geometry<3, 49>, float>(samples);
            means_of_channels_equal_reference<channel_geometry<5, 9>, double>(samples);
            means_of_channels_equal_reference<channel_geometry<7, 4>, bf16>(samples);
            means_of_channels_equal_reference<channel_geometry<2, 1>, float>(samples);
        }
    }

    TEST_CASE("a NaN is the maximum of its window, and the last one gets the gradient") {
        using geometry = pool2d_geometry<1, 2, 4, 2, 2>;
        float const nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
        float const x[] = {nan, 3, -infinity, -infinity, nan, 9, -infinity, -infinity}, dy[] = {1, 1};
        std::vector<float> y(2), dx(8);
        rehearse(0, 1, 0, [&](rehearsal_kernels const& k) {
            max_pool2d_forward<geometry, 1>(k, x, y.data());
            max_pool2d_backward_input<geometry, 1>(k, x, y.data(), dy, dx.data());
        });
        CHECK(std::isnan(y[0]));
        CHECK(y[1] == -infinity);
        CHECK(dx == std::vector<float>{0, 0, 1, 0, 1, 0, 0, 0});
        std::uint8_t places[2] = {};
        rehearse(0, 1, 0, [&](rehearsal_kernels const& k) {
            max_pool2d_forward<geometry, 1>(k, x, y.data(), places);
            max_pool2d_backward_input<geometry, 1>(k, static_cast<std::uint8_t const*>(places), dy, dx.data());
        });
        CHECK(places[0] == 2);
        CHECK(places[1] == 0);
        CHECK(dx == std::vector<float>{0, 0, 1, 0, 1, 0, 0, 0});
    }

    TEST_CASE("the last place of the largest window whose places are bytes gets the gradient") {
        using geometry = pool2d_geometry<1, 16, 16, 16, 16>;
        std::vector<float> x(256), y(1), dx(256), expected(256);
        x[255] = 1;
        expected[255] = 3;
        float const dy[] = {3};
        std::uint8_t place[1] = {};
        rehearse(0, 1, 0, [&](rehearsal_kernels const& k) {
            max_pool2d_forward<geometry, 1>(k, x.data(), y.data(), place);
            max_pool2d_backward_input<geometry, 1>(k, static_cast<std::uint8_t const*>(place), dy, dx.data());
        });
        CHECK(dx == expected);
    }

    TEST_CASE("a function after the pooling, and its slope before the gradient") {
        using G = pool2d_geometry<2, 8, 7, 3, 2>;
        using F = sigmoid_function;
        constexpr std::size_t samples = 3;
        auto const x = uniform<float>(0, inputs<G> * samples), dy = uniform<float>(1, outputs<G> * samples);
        std::vector<float> y(dy.size()), plain_y = y, saved_y = y, dx(x.size()), plain_dx = dx, saved_dx = dx;
        std::vector<std::uint8_t> places(dy.size());
        for (bool const maximum : {false, true}) {
            CAPTURE(maximum);
            rehearse(0, samples, 0, [&](rehearsal_kernels const& k) {
                with_function<rehearsal_kernels, F, float> const with(k, x.data());
                if (maximum) {
                    max_pool2d_forward<G, 1>(with, x.data(), y.data());
                    max_pool2d_forward<G, 1>(with.without(), x.data(), plain_y.data());
                    max_pool2d_backward_input<G, 1>(with, x.data(), y.data(), dy.data(), dx.data());
                    max_pool2d_backward_input<G, 1>(k, x.data(), y.data(), dy.data(), plain_dx.data());
                    std::uint8_t const* const saved = places.data();
                    max_pool2d_forward<G, 1>(with, x.data(), saved_y.data(), places.data());
                    max_pool2d_backward_input<G, 1>(with, saved, dy.data(), saved_dx.data());
                } else {
                    avg_pool2d_forward<G, 1>(with, x.data(), y.data());
                    avg_pool2d_forward<G, 1>(with.without(), x.data(), plain_y.data());
                    avg_pool2d_backward_input<G, 1>(with, dy.data(), dx.data());
                    avg_pool2d_backward_input<G, 1>(k, dy.data(), plain_dx.data());
                }
            });
            for (float& value : plain_y) value = F::value(value);
            for (std::size_t i = 0; i < dx.size(); ++i) plain_dx[i] *= F::slope(x[i], x[i]);
            CHECK(numbers::apart(y, plain_y, 1) <= 1);
            CHECK(numbers::apart(dx, plain_dx, 4) <= 1);
            if (maximum) CHECK(test_support::same_bits(saved_y, y));
            if (maximum) CHECK(test_support::same_bits(saved_dx, dx));
        }
    }
}

} // namespace device_blocks_pool2d_test
