// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable/pool2d.hpp>
#include <trireme/kernels/reference/pool2d.hpp>

#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace device_pool2d_test {
using namespace trireme;

namespace {

template<class G, std::size_t Lanes, class T>
void portable_equals_reference() {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(G::channels);
    CAPTURE(G::height);
    CAPTURE(G::width);
    CAPTURE(G::kernel);
    CAPTURE(G::stride);
    CAPTURE(Lanes);
    CAPTURE(sizeof(T));
    constexpr std::size_t inputs = G::channels * G::height * G::width * Lanes;
    constexpr std::size_t outputs = G::channels * G::out_height * G::out_width * Lanes;
    auto x = numbers::uniform<T>(0, inputs);
    auto const dy = numbers::uniform<T>(1, outputs);

    auto y = numbers::unset<T>(outputs), expected_y = y;
    avg_pool2d_forward<G, Lanes>(portable{}, x.data(), y.data());
    avg_pool2d_forward<G, Lanes>(reference{}, x.data(), expected_y.data());
    CHECK(numbers::apart(y, expected_y, G::kernel * G::kernel) <= 1);

    auto dx = numbers::unset<T>(inputs), expected_dx = dx;
    avg_pool2d_backward_input<G, Lanes>(portable{}, dy.data(), dx.data());
    avg_pool2d_backward_input<G, Lanes>(reference{}, dy.data(), expected_dx.data());
    CHECK(numbers::apart(dx, expected_dx, G::kernel * G::kernel) <= 1);

    for (T& value : x) value = std::round(2 * value) / 2; // five values, so that most windows have ties
    y = expected_y = numbers::unset<T>(outputs);
    max_pool2d_forward<G, Lanes>(portable{}, x.data(), y.data());
    max_pool2d_forward<G, Lanes>(reference{}, x.data(), expected_y.data());
    CHECK(y == expected_y);

    dx = expected_dx = numbers::unset<T>(inputs);
    max_pool2d_backward_input<G, Lanes>(portable{}, x.data(), y.data(), dy.data(), dx.data());
    max_pool2d_backward_input<G, Lanes>(reference{}, x.data(), y.data(), dy.data(), expected_dx.data());
    CHECK(dx == expected_dx);
}

template<std::size_t Lanes, class T>
void usual_geometries() {
    portable_equals_reference<pool2d_geometry<3, 7, 9, 2, 2>, Lanes, T>(); // a row and a column left over
    portable_equals_reference<pool2d_geometry<2, 8, 7, 3, 2>, Lanes, T>(); // windows overlap
}

template<class G, std::size_t Lanes, class T>
void global_average_equals_reference() {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(G::channels);
    CAPTURE(G::positions);
    CAPTURE(Lanes);
    CAPTURE(sizeof(T));
    constexpr std::size_t inputs = G::channels * G::positions * Lanes, outputs = G::channels * Lanes;
    auto const x = numbers::uniform<T>(0, inputs), dy = numbers::uniform<T>(1, outputs);
    auto y = numbers::unset<T>(outputs), expected_y = y;
    global_avg_pool2d_forward<G, Lanes>(portable{}, x.data(), y.data());
    global_avg_pool2d_forward<G, Lanes>(reference{}, x.data(), expected_y.data());
    CHECK(numbers::apart(y, expected_y, 1) <= 1);

    auto dx = numbers::unset<T>(inputs), expected_dx = dx;
    global_avg_pool2d_backward_input<G, Lanes>(portable{}, dy.data(), dx.data());
    global_avg_pool2d_backward_input<G, Lanes>(reference{}, dy.data(), expected_dx.data());
    CHECK(numbers::apart(dx, expected_dx, 1) <= 1);
    // backward is forward's transpose
    CHECK(std::abs(numbers::dot(dx, x) - numbers::dot(dy, y)) <=
          static_cast<double>(std::numeric_limits<T>::epsilon()) * 8 * outputs);
}

template<std::size_t Lanes, class T>
void usual_global_averages() {
    global_average_equals_reference<channel_geometry<3, 7 * 9>, Lanes, T>();
    global_average_equals_reference<channel_geometry<5, 1>, Lanes, T>();
}

template<class Policy>
void global_average_by_hand() {
    using geometry = channel_geometry<2, 3>;
    float const x[] = {1, 10, 2, 20, 6, 60, /**/ -1, 4, -1, 5, -1, 6}, dy[] = {3, 6, 9, -12};
    std::vector<float> y(4), dx(12, 7.0f);
    global_avg_pool2d_forward<geometry, 2>(Policy{}, x, y.data());
    CHECK(y == std::vector<float>{3, 30, -1, 5});
    global_avg_pool2d_backward_input<geometry, 2>(Policy{}, dy, dx.data());
    CHECK(dx == std::vector<float>{1, 2, 1, 2, 1, 2, 3, -4, 3, -4, 3, -4});
}

template<class Policy>
void average_by_hand() {
    using overlapping = pool2d_geometry<1, 2, 4, 2, 1>;
    float const x[] = {1, 2, 3, 4, 5, 6, 7, 8}, dy[] = {4, 8, 12};
    std::vector<float> y(3), dx(8);
    avg_pool2d_forward<overlapping, 1>(Policy{}, x, y.data());
    CHECK(y == std::vector<float>{3.5f, 4.5f, 5.5f});
    avg_pool2d_backward_input<overlapping, 1>(Policy{}, dy, dx.data());
    CHECK(dx == std::vector<float>{1, 3, 5, 3, 1, 3, 5, 3});

    using left_over = pool2d_geometry<1, 3, 3, 2, 2>;
    float const image[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    y.assign(1, 0);
    dx.assign(9, 7);
    avg_pool2d_forward<left_over, 1>(Policy{}, image, y.data());
    CHECK(y == std::vector<float>{3});
    avg_pool2d_backward_input<left_over, 1>(Policy{}, dy, dx.data());
    CHECK(dx == std::vector<float>{1, 1, 0, 1, 1, 0, 0, 0, 0});

    // a row, or a column, alone is left over
    dx.assign(6, 7);
    avg_pool2d_backward_input<pool2d_geometry<1, 3, 2, 2, 2>, 1>(Policy{}, dy, dx.data());
    CHECK(dx == std::vector<float>{1, 1, 1, 1, 0, 0});
    dx.assign(6, 7);
    avg_pool2d_backward_input<pool2d_geometry<1, 2, 3, 2, 2>, 1>(Policy{}, dy, dx.data());
    CHECK(dx == std::vector<float>{1, 1, 0, 1, 1, 0});
}

template<class Policy>
void maximum_by_hand() {
    using geometry = pool2d_geometry<1, 2, 4, 2, 2>;
    // the left window ties in its second and third place, the right one everywhere
    float const x[] = {1, 3, 2, 2, 3, 0, 2, 2}, dy[] = {5, 7};
    std::vector<float> y(2), dx(8, 9.0f);
    max_pool2d_forward<geometry, 1>(Policy{}, x, y.data());
    CHECK(y == std::vector<float>{3, 2});
    max_pool2d_backward_input<geometry, 1>(Policy{}, x, y.data(), dy, dx.data());
    CHECK(dx == std::vector<float>{0, 5, 7, 0, 0, 0, 0, 0});

    // one input may be the maximum of several windows
    using overlapping = pool2d_geometry<1, 2, 3, 2, 1>;
    float const peak[] = {0, 9, 0, 0, 0, 0};
    dx.assign(6, 1);
    max_pool2d_backward_input<overlapping, 1>(Policy{}, peak, y.data(), dy, dx.data());
    CHECK(dx == std::vector<float>{0, 12, 0, 0, 0, 0});
}

template<class Policy, std::size_t Lanes>
void nan_is_the_maximum() {
    using geometry = pool2d_geometry<1, 2, 4, 2, 2>;
    float const nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    float const row[] = {nan, 3, -infinity, -infinity, nan, 9, -infinity, -infinity};
    std::vector<float> x(8 * Lanes), y(2 * Lanes), dy(2 * Lanes, 1.0f), dx(8 * Lanes);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = row[i / Lanes];
    max_pool2d_forward<geometry, Lanes>(Policy{}, x.data(), y.data());
    max_pool2d_backward_input<geometry, Lanes>(Policy{}, x.data(), y.data(), dy.data(), dx.data());
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        CHECK(std::isnan(y[lane]));
        CHECK(y[Lanes + lane] == -infinity);
        for (std::size_t i = 0; i < 8; ++i)
            CHECK(dx[i * Lanes + lane] == (i == 4 || i == 2 ? 1 : 0)); // PyTorch: the last NaN
    }
}

} // namespace

TEST_SUITE("kernels/pool2d") {
    TEST_CASE("average pooling by hand") {
        average_by_hand<reference>();
        average_by_hand<portable>();
    }

    TEST_CASE("maximum pooling by hand: the first of equal maxima gets the gradient") {
        maximum_by_hand<reference>();
        maximum_by_hand<portable>();
    }

    TEST_CASE("a NaN is the maximum of its window") {
        nan_is_the_maximum<reference, 1>();
        nan_is_the_maximum<portable, 1>();
        nan_is_the_maximum<portable, 16>();
    }

    TEST_CASE("global averages by hand") {
        global_average_by_hand<reference>();
        global_average_by_hand<portable>();
    }

    TEST_CASE("global averages: portable equals reference for every number of lanes and both types") {
        usual_global_averages<1, float>();
        usual_global_averages<4, float>();
        usual_global_averages<6, float>();
        usual_global_averages<16, float>();
        usual_global_averages<1, double>();
        usual_global_averages<4, double>();
        usual_global_averages<16, double>();
        global_average_equals_reference<channel_geometry<64, 7 * 7>, 16, float>(); // ResNet-18's
    }

    TEST_CASE("portable equals reference") {
        portable_equals_reference<pool2d_geometry<6, 28, 28, 2, 2>, 16, float>(); // LeNet's first
        portable_equals_reference<pool2d_geometry<1, 5, 11, 2, 3>, 4, float>();   // gaps between windows
        portable_equals_reference<pool2d_geometry<2, 4, 4, 4, 1>, 4, float>();    // window = image
        portable_equals_reference<pool2d_geometry<2, 3, 3, 1, 1>, 4, float>();
    }

    TEST_CASE("portable equals reference for every number of lanes and both types") {
        usual_geometries<1, float>();
        usual_geometries<4, float>();
        usual_geometries<6, float>();
        usual_geometries<16, float>();
        usual_geometries<1, double>();
        usual_geometries<4, double>();
        usual_geometries<16, double>();
    }
}

} // namespace device_pool2d_test
