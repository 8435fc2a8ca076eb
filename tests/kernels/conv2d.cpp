// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable/conv2d.hpp>
#include <trireme/kernels/reference/conv2d.hpp>

#include <kernels/cases.hpp>
#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace device_conv2d_test {
using namespace trireme;
using kernel_cases::sizes;

namespace {

template<class G, std::size_t Lanes, class T>
std::string words() {
    return "TRIREME_TEST_SEED=" + std::to_string(numbers::seed()) + " " + kernel_cases::text_of_conv2d<G>() + ", " +
           std::to_string(Lanes) + " lanes of " + std::to_string(sizeof(T)) + " bytes";
}

template<class G, std::size_t Lanes, class T>
void portable_weights_equal_reference() {
    using size = sizes<G>;
    INFO((words<G, Lanes, T>()));
    auto const x = numbers::uniform<T>(0, size::x * Lanes), dy = numbers::uniform<T>(3, size::y * Lanes);
    auto dw = numbers::uniform<T>(4, size::w), expected_dw = dw, db = numbers::uniform<T>(5, size::b), expected_db = db;
    conv2d_backward_weights<G, Lanes>(portable{}, x.data(), dy.data(), dw.data(), db.data());
    conv2d_backward_weights<G, Lanes>(reference{}, x.data(), dy.data(), expected_dw.data(), expected_db.data());
    CHECK(numbers::apart(dw, expected_dw, G::out_height * G::out_width * Lanes + 1) <= 1);
    CHECK(numbers::apart(db, expected_db, G::out_height * G::out_width * Lanes + 1) <= 1);
}

template<class G, std::size_t Lanes, class T>
void portable_equals_reference() {
    using size = sizes<G>;
    INFO((words<G, Lanes, T>()));
    auto const x = numbers::uniform<T>(0, size::x * Lanes), w = numbers::uniform<T>(1, size::w);
    auto const b = numbers::uniform<T>(2, size::b), dy = numbers::uniform<T>(3, size::y * Lanes);

    auto y = numbers::unset<T>(size::y * Lanes), expected_y = y;
    conv2d_forward<G, Lanes>(portable{}, x.data(), w.data(), b.data(), y.data());
    conv2d_forward<G, Lanes>(reference{}, x.data(), w.data(), b.data(), expected_y.data());
    CHECK(numbers::apart(y, expected_y, G::channels * G::kernel * G::kernel + 1) <= 1);

    auto dx = numbers::unset<T>(size::x * Lanes), expected_dx = dx;
    conv2d_backward_input<G, Lanes>(portable{}, w.data(), dy.data(), dx.data());
    conv2d_backward_input<G, Lanes>(reference{}, w.data(), dy.data(), expected_dx.data());
    CHECK(numbers::apart(dx, expected_dx, G::out_channels * G::kernel * G::kernel) <= 1);

    portable_weights_equal_reference<G, Lanes, T>();

    // the same arguments, the same bits
    auto again = numbers::unset<T>(size::y * Lanes);
    conv2d_forward<G, Lanes>(portable{}, x.data(), w.data(), b.data(), again.data());
    CHECK(again == y);
}

template<class Policy>
void by_hand() {
    // one channel, 3 x 3, kernel 2, padding 1, stride 2: the taps of the four outputs are
    // (., ., ., x00)  (., ., x01, x02)  (., x10, ., x20)  (x11, x12, x21, x22)
    using geometry = conv2d_geometry<1, 3, 3, 1, 2, 1, 2>;
    float const x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, w[] = {1, 10, 100, 1000}, b[] = {0.5f}, dy[] = {1, 2, 3, 4};
    std::vector<float> y(4), dx(9), dw{1, 1, 1, 1}, db{1};
    conv2d_forward<geometry, 1>(Policy{}, x, w, b, y.data());
    CHECK(y == std::vector<float>{1000.5f, 3200.5f, 7040.5f, 5 + 60 + 800 + 9000 + 0.5f});
    conv2d_backward_input<geometry, 1>(Policy{}, w, dy, dx.data());
    CHECK(dx == std::vector<float>{1000, 200, 2000, 30, 4, 40, 3000, 400, 4000});
    conv2d_backward_weights<geometry, 1>(Policy{}, x, dy, dw.data(), db.data());
    CHECK(dw == std::vector<float>{1 + 4 * 5, 1 + 3 * 4 + 4 * 6, 1 + 2 * 2 + 4 * 8, 1 + 1 * 1 + 2 * 3 + 3 * 7 + 4 * 9});
    CHECK(db == std::vector<float>{11});
}

} // namespace

TEST_SUITE("kernels/conv2d") {
    TEST_CASE("a convolution by hand") {
        by_hand<reference>();
        by_hand<portable>();
    }

    TEST_CASE("two channels, two outputs and two lanes by hand") {
        using geometry = conv2d_geometry<2, 1, 2, 2, 1, 0, 1>;
        // x[channel][column][lane], w[output][channel]
        float const x[] = {1, -1, 2, -2, 3, -3, 4, -4}, w[] = {1, 10, 2, 20}, b[] = {0, 100};
        std::vector<float> y(8), dw(4), db(2);
        conv2d_forward<geometry, 2>(reference{}, x, w, b, y.data());
        CHECK(y == std::vector<float>{31, -31, 42, -42, 162, 38, 184, 16});
        float const dy[] = {1, 0, 0, 1, 1, 1, 1, 1};
        conv2d_backward_weights<geometry, 2>(reference{}, x, dy, dw.data(), db.data());
        CHECK(dw == std::vector<float>{-1, -1, 0, 0});
        CHECK(db == std::vector<float>{2, 4});
    }

    TEST_CASE("the reference's backward functions are the transposed maps of its forward function") {
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        using geometry = conv2d_geometry<2, 9, 6, 3, 3, 1, 2>;
        constexpr std::size_t lanes = 4;
        using size = sizes<geometry>;
        auto const x = numbers::uniform<double>(0, size::x * lanes), w = numbers::uniform<double>(1, size::w);
        auto const dy = numbers::uniform<double>(3, size::y * lanes);
        std::vector<double> const b(size::b);
        std::vector<double> y(size::y * lanes), dx(size::x * lanes), dw(size::w), db(size::b);
        conv2d_forward<geometry, lanes>(reference{}, x.data(), w.data(), b.data(), y.data());
        conv2d_backward_input<geometry, lanes>(reference{}, w.data(), dy.data(), dx.data());
        conv2d_backward_weights<geometry, lanes>(reference{}, x.data(), dy.data(), dw.data(), db.data());
        CHECK(numbers::dot(dy, y) == doctest::Approx(numbers::dot(dx, x)).epsilon(1e-12));
        CHECK(numbers::dot(dy, y) == doctest::Approx(numbers::dot(dw, w)).epsilon(1e-12));
    }

    TEST_CASE("portable equals reference for LeNet's convolutions") {
        portable_equals_reference<conv2d_geometry<1, 28, 28, 6, 5, 2, 1>, 16, float>();
        portable_equals_reference<conv2d_geometry<6, 14, 14, 16, 5, 0, 1>, 16, float>();
        portable_equals_reference<conv2d_geometry<16, 5, 5, 120, 5, 0, 1>, 16, float>();
    }

    TEST_CASE("portable equals reference for every number of lanes and both types") {
        using strided = conv2d_geometry<2, 9, 6, 3, 3, 1, 2>;
        portable_equals_reference<strided, 1, float>();
        portable_equals_reference<strided, 4, float>();
        portable_equals_reference<strided, 6, float>();
        portable_equals_reference<strided, 16, float>();
        portable_equals_reference<strided, 1, double>();
        portable_equals_reference<strided, 4, double>();
        portable_equals_reference<strided, 16, double>();
        using padded = conv2d_geometry<3, 7, 9, 5, 3, 1, 1>;
        portable_equals_reference<padded, 1, float>();
        portable_equals_reference<padded, 16, float>();
        portable_equals_reference<padded, 16, double>();
    }

    TEST_CASE("portable equals reference for unusual geometries") {
        portable_equals_reference<conv2d_geometry<1, 5, 5, 4, 5, 0, 1>, 4, float>();     // kernel = image
        portable_equals_reference<conv2d_geometry<4, 3, 3, 2, 1, 0, 1>, 4, float>();     // 1 x 1
        portable_equals_reference<conv2d_geometry<2, 4, 5, 7, 4, 3, 1>, 4, float>();     // padding K - 1
        portable_equals_reference<conv2d_geometry<1, 6, 5, 2, 2, 3, 1>, 4, float>();     // outputs that see no input
        portable_equals_reference<conv2d_geometry<2, 8, 7, 3, 2, 0, 3>, 4, float>();     // inputs that no output sees
        portable_equals_reference<conv2d_geometry<3, 11, 10, 13, 7, 3, 2>, 4, double>(); // kernel wider than a tile
        portable_equals_reference<conv2d_geometry<2, 1, 1, 3, 3, 1, 1>, 4, float>();     // kernel larger than the image
        portable_equals_reference<conv2d_geometry<2, 1, 13, 25, 1, 0, 4>, 4, float>(); // stride larger than the height
        portable_equals_reference<conv2d_geometry<1, 2, 2, 1, 2, 3, 5>, 4, float>();   // mostly padding
    }

    TEST_CASE("portable equals reference for the weights of many input channels") {
        // odd counts: a last register that is not full, registers and channels that leave a rest, a border everywhere
        using odd = conv2d_geometry<17, 5, 6, 30, 3, 1, 2>;
        portable_weights_equal_reference<odd, 16, float>();
        portable_weights_equal_reference<odd, 16, double>();
        // images of several blocks of rows, rows of several blocks, several chunks of channels
        using tall = conv2d_geometry<23, 9, 12, 40, 3, 1, 1>;
        portable_weights_equal_reference<tall, 16, float>();
        using wide = conv2d_geometry<16, 3, 131, 15, 3, 1, 1>;
        portable_weights_equal_reference<wide, 16, double>();
        using deep = conv2d_geometry<45, 5, 4, 32, 7, 3, 1>;
        portable_weights_equal_reference<deep, 16, float>();
        // 1 x 1, outputs that see no input, no padding
        portable_weights_equal_reference<conv2d_geometry<65, 5, 5, 16, 1, 0, 2>, 16, float>();
        portable_weights_equal_reference<conv2d_geometry<16, 1, 2, 16, 2, 3, 2>, 16, float>();
        portable_weights_equal_reference<conv2d_geometry<16, 6, 6, 16, 5, 0, 1>, 16, float>();
    }
}

} // namespace device_conv2d_test
