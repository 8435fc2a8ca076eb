// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable/conv2d.hpp>
#include <trireme/kernels/portable/linear.hpp>
#include <trireme/kernels/reference/conv2d.hpp>
#include <trireme/kernels/reference/linear.hpp>

#include <kernels/cases.hpp>
#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

namespace device_one_sample_test {
using namespace trireme;
using kernel_cases::guarded;
using kernel_cases::sizes;

// Granules of one lane: the kernels of portable/one_sample against the reference's.

namespace {

template<class T>
void check(guarded<T> const& ours, std::vector<T> const& expected, std::size_t terms) {
    CHECK(numbers::apart(ours.numbers(), expected, terms) <= 1);
    CHECK(ours.intact());
}

// Inputs are vectors without guards, so that the address sanitizer sees who reads behind them.

template<class G, class T>
void conv2d_equals_reference() {
    using size = sizes<G>;
    constexpr std::size_t pixels = G::out_height * G::out_width;
    static_assert(G::height + 2 * G::padding >= G::kernel && G::width + 2 * G::padding >= G::kernel);
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(kernel_cases::text_of_conv2d<G>());
    CAPTURE(sizeof(T));
    auto const x = numbers::uniform<T>(0, size::x), w = numbers::uniform<T>(1, size::w);
    auto const b = numbers::uniform<T>(2, size::b), dy = numbers::uniform<T>(3, size::y);

    auto expected_y = numbers::unset<T>(dy.size());
    guarded<T> y(expected_y), y_again(expected_y);
    conv2d_forward<G, 1>(reference{}, x.data(), w.data(), b.data(), expected_y.data());
    conv2d_forward<G, 1>(portable{}, x.data(), w.data(), b.data(), y.data());
    check(y, expected_y, size::taps + 1);
    conv2d_forward<G, 1>(portable{}, x.data(), w.data(), b.data(), y_again.data());
    CHECK(y_again.numbers() == y.numbers()); // the same arguments, the same bits

    auto expected_dx = numbers::unset<T>(size::x);
    guarded<T> dx(expected_dx);
    conv2d_backward_input<G, 1>(reference{}, w.data(), dy.data(), expected_dx.data());
    conv2d_backward_input<G, 1>(portable{}, w.data(), dy.data(), dx.data());
    check(dx, expected_dx, G::out_channels * G::kernel * G::kernel);

    auto expected_dw = numbers::uniform<T>(4, w.size()), expected_db = numbers::uniform<T>(5, b.size());
    guarded<T> dw(expected_dw), db(expected_db);
    conv2d_backward_weights<G, 1>(reference{}, x.data(), dy.data(), expected_dw.data(), expected_db.data());
    conv2d_backward_weights<G, 1>(portable{}, x.data(), dy.data(), dw.data(), db.data());
    check(dw, expected_dw, pixels + 1);
    check(db, expected_db, pixels + 1);
}

template<class G, class T>
void linear_equals_reference() {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(G::inputs);
    CAPTURE(G::outputs);
    CAPTURE(sizeof(T));
    auto const x = numbers::uniform<T>(0, G::inputs), w = numbers::uniform<T>(1, G::inputs * G::outputs);
    auto const b = numbers::uniform<T>(2, G::outputs), dy = numbers::uniform<T>(3, G::outputs);

    auto expected_y = numbers::unset<T>(G::outputs), expected_dx = numbers::unset<T>(G::inputs);
    guarded<T> y(expected_y), dx(expected_dx);
    linear_forward<G, 1>(reference{}, x.data(), w.data(), b.data(), expected_y.data());
    linear_forward<G, 1>(portable{}, x.data(), w.data(), b.data(), y.data());
    check(y, expected_y, G::inputs + 1);
    linear_backward_input<G, 1>(reference{}, w.data(), dy.data(), expected_dx.data());
    linear_backward_input<G, 1>(portable{}, w.data(), dy.data(), dx.data());
    check(dx, expected_dx, G::outputs);

    auto expected_dw = numbers::uniform<T>(4, w.size()), expected_db = numbers::uniform<T>(5, b.size());
    guarded<T> dw(expected_dw), db(expected_db);
    linear_backward_weights<G, 1>(reference{}, x.data(), dy.data(), expected_dw.data(), expected_db.data());
    linear_backward_weights<G, 1>(portable{}, x.data(), dy.data(), dw.data(), db.data());
    check(dw, expected_dw, 2);
    check(db, expected_db, 2);
}

// ---- geometries whose panels are cut, for both types: channels, height, width, outputs, kernel, padding, stride ----

using many_channels = conv2d_geometry<47, 6, 32, 3, 5, 0, 1>;
using many_rows = conv2d_geometry<2, 23, 60, 3, 5, 2, 1>;
using strided_rows = conv2d_geometry<2, 46, 121, 3, 3, 1, 2>;
using long_rows = conv2d_geometry<2, 8, 341, 2, 7, 0, 1>;

template<class G, class T>
struct cut {
    using panel = detail::conv2d_panel<G, T>;
    static constexpr bool channels = panel::channels < G::channels, rows = panel::rows < G::out_height;
    static constexpr bool rest_of_channels = G::channels % panel::channels != 0;
    static constexpr bool rest_of_rows = G::out_height % panel::rows != 0;
    static constexpr bool row_fits = panel::row <= panel::most;
};

template<class T>
constexpr bool cut_as_meant() {
    return cut<many_channels, T>::channels && cut<many_channels, T>::rest_of_channels && !cut<many_rows, T>::channels &&
           cut<many_rows, T>::rows && cut<many_rows, T>::rest_of_rows && !cut<strided_rows, T>::channels &&
           cut<strided_rows, T>::rows && cut<strided_rows, T>::rest_of_rows &&
           detail::conv2d_panel<strided_rows, T>::rows > 2 && cut<long_rows, T>::channels && cut<long_rows, T>::rows &&
           !cut<long_rows, T>::row_fits;
}
static_assert(cut_as_meant<float>() && cut_as_meant<double>());

} // namespace

TEST_SUITE("kernels/one_sample") {
    TEST_CASE("convolutions with few outputs in a row") {
        conv2d_equals_reference<conv2d_geometry<1, 1, 1, 1, 1, 0, 1>, float>();  // a product of two numbers
        conv2d_equals_reference<conv2d_geometry<2, 2, 2, 16, 2, 0, 1>, float>(); // kernel = image, one output
        conv2d_equals_reference<conv2d_geometry<2, 9, 8, 1, 3, 0, 3>, float>();  // two; inputs that no output sees
        conv2d_equals_reference<conv2d_geometry<4, 3, 3, 1, 1, 0, 1>, float>();
        conv2d_equals_reference<conv2d_geometry<3, 5, 4, 17, 2, 1, 2>, float>(); // three
        conv2d_equals_reference<conv2d_geometry<37, 3, 3, 3, 3, 1, 1>, float>();
        conv2d_equals_reference<conv2d_geometry<3, 7, 7, 16, 3, 1, 1>, float>(); // seven
    }

    TEST_CASE_TEMPLATE("convolutions with a register of outputs in a row, and with one more", T, float, double) {
        constexpr auto n = full_register<T>;
        using exact = conv2d_geometry<2, 4, n, 3, 5, 2, 1>;
        using one_more = conv2d_geometry<1, 5, n + 5, 16, 5, 0, 1>; // a single row of outputs
        using wide_padding = conv2d_geometry<2, 3, n + 1, 3, 7, 3, 1>;
        static_assert(exact::out_width == n && one_more::out_width == n + 1 && wide_padding::out_width == n + 1);
        conv2d_equals_reference<exact, T>();
        conv2d_equals_reference<one_more, T>();
        conv2d_equals_reference<wide_padding, T>();
    }

    TEST_CASE("convolutions whose panels have no room on the stack are computed without") {
        using wide = conv2d_geometry<1, 7, 50'000, 1, 7, 3, 1>;
        using few_outputs = conv2d_geometry<1, 121, 8000, 1, 1, 0, 8>; // their window is what has no room
        static_assert(!detail::conv2d_panel<wide, float>::fits && !detail::conv2d_panel<few_outputs, float>::fits);
        conv2d_equals_reference<wide, float>();
        conv2d_equals_reference<few_outputs, float>();
    }

    TEST_CASE("convolutions with strides and paddings") {
        conv2d_equals_reference<conv2d_geometry<3, 5, 5, 3, 1, 1, 2>, float>();
        conv2d_equals_reference<conv2d_geometry<1, 6, 5, 3, 2, 3, 3>, float>(); // outputs that see no input
        conv2d_equals_reference<conv2d_geometry<2, 4, 6, 17, 3, 2, 2>, float>();
        conv2d_equals_reference<conv2d_geometry<3, 5, 5, 3, 5, 3, 2>, double>();
        conv2d_equals_reference<conv2d_geometry<2, 8, 11, 2, 7, 0, 3>, double>();
        conv2d_equals_reference<conv2d_geometry<3, 8, 9, 1, 7, 2, 2>, float>();
        conv2d_equals_reference<conv2d_geometry<2, 1, 1, 3, 3, 1, 1>, double>(); // kernel larger than the image
        conv2d_equals_reference<conv2d_geometry<1, 2, 2, 1, 2, 3, 5>, float>();  // mostly padding
    }

    TEST_CASE_TEMPLATE("convolutions cut into panels of some channels, or of some rows", T, float, double) {
        conv2d_equals_reference<many_channels, T>();
        conv2d_equals_reference<many_rows, T>();
        conv2d_equals_reference<strided_rows, T>();
    }

    TEST_CASE("a convolution of which not one row of one channel fits into a panel") {
        conv2d_equals_reference<long_rows, float>();
    }

    TEST_CASE("linear layers") {
        linear_equals_reference<linear_geometry<1, 1>, float>();
        linear_equals_reference<linear_geometry<1, 400>, float>();
        linear_equals_reference<linear_geometry<3, 10>, float>();
        linear_equals_reference<linear_geometry<16, 16>, float>();
        linear_equals_reference<linear_geometry<17, 33>, float>();
        linear_equals_reference<linear_geometry<84, 10>, float>();
        linear_equals_reference<linear_geometry<400, 84>, float>();
        linear_equals_reference<linear_geometry<400, 1>, double>();
        linear_equals_reference<linear_geometry<10, 3>, double>();
        linear_equals_reference<linear_geometry<33, 17>, double>();
    }
}

} // namespace device_one_sample_test
