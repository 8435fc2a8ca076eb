// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable/linear.hpp>
#include <trireme/kernels/reference/linear.hpp>

#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

namespace device_linear_test {
using namespace trireme;

namespace {

template<class G, std::size_t Lanes, class T>
void portable_equals_reference() {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(G::inputs);
    CAPTURE(G::outputs);
    CAPTURE(Lanes);
    CAPTURE(sizeof(T));
    auto const x = numbers::uniform<T>(0, G::inputs * Lanes), w = numbers::uniform<T>(1, G::inputs * G::outputs);
    auto const biases = numbers::uniform<T>(2, G::outputs), dy = numbers::uniform<T>(3, G::outputs * Lanes);
    auto const* const b = G::bias ? biases.data() : nullptr;

    auto y = numbers::unset<T>(G::outputs * Lanes), expected_y = y;
    linear_forward<G, Lanes>(portable{}, x.data(), w.data(), b, y.data());
    linear_forward<G, Lanes>(reference{}, x.data(), w.data(), b, expected_y.data());
    CHECK(numbers::apart(y, expected_y, G::inputs + 1) <= 1);

    auto dx = numbers::unset<T>(G::inputs * Lanes), expected_dx = dx;
    linear_backward_input<G, Lanes>(portable{}, w.data(), dy.data(), dx.data());
    linear_backward_input<G, Lanes>(reference{}, w.data(), dy.data(), expected_dx.data());
    CHECK(numbers::apart(dx, expected_dx, G::outputs) <= 1);

    auto dw = numbers::uniform<T>(4, G::inputs * G::outputs), expected_dw = dw;
    auto db = numbers::uniform<T>(5, G::outputs), expected_db = db;
    linear_backward_weights<G, Lanes>(portable{}, x.data(), dy.data(), dw.data(), G::bias ? db.data() : nullptr);
    linear_backward_weights<G, Lanes>(reference{}, x.data(), dy.data(), expected_dw.data(),
                                      G::bias ? expected_db.data() : nullptr);
    CHECK(numbers::apart(dw, expected_dw, Lanes + 1) <= 1);
    CHECK(numbers::apart(db, expected_db, Lanes + 1) <= 1);
}

template<class Policy>
void by_hand() {
    using geometry = linear_geometry<2, 3>;
    float const x[] = {1, 2, 3, 4}; // [input][lane]: the samples are (1, 3) and (2, 4)
    float const w[] = {1, 10, 2, 20, 3, 30}, b[] = {0, 100, 0}, dy[] = {1, 0, 0, 1, 1, 1};
    std::vector<float> y(6), dx(4), dw(6, 1.0f), db(3, 1.0f);
    linear_forward<geometry, 2>(Policy{}, x, w, b, y.data());
    CHECK(y == std::vector<float>{31, 42, 162, 184, 93, 126});
    linear_backward_input<geometry, 2>(Policy{}, w, dy, dx.data());
    CHECK(dx == std::vector<float>{4, 5, 40, 50});
    linear_backward_weights<geometry, 2>(Policy{}, x, dy, dw.data(), db.data());
    CHECK(dw == std::vector<float>{2, 4, 3, 5, 4, 8});
    CHECK(db == std::vector<float>{2, 2, 3});
}

} // namespace

TEST_SUITE("kernels/linear") {
    TEST_CASE("a linear layer by hand") {
        by_hand<reference>();
        by_hand<portable>();
    }

    TEST_CASE("portable equals reference for LeNet's layers, and for the smallest") {
        portable_equals_reference<linear_geometry<400, 120>, 16, float>();
        portable_equals_reference<linear_geometry<120, 84>, 16, float>();
        portable_equals_reference<linear_geometry<84, 10>, 16, float>();
        portable_equals_reference<linear_geometry<1, 1>, 4, float>();
    }

    TEST_CASE("portable equals reference for every number of lanes and both types") {
        using odd = linear_geometry<33, 25>;
        portable_equals_reference<odd, 1, float>();
        portable_equals_reference<odd, 4, float>();
        portable_equals_reference<odd, 6, float>();
        portable_equals_reference<odd, 16, float>();
        portable_equals_reference<odd, 1, double>();
        portable_equals_reference<odd, 4, double>();
        portable_equals_reference<odd, 16, double>();
    }

    TEST_CASE("without a bias") {
        using geometry = linear_geometry<2, 3, 1, false>;
        float const x[] = {1, 2, 3, 4}, w[] = {1, 10, 2, 20, 3, 30}, *const none = nullptr;
        std::vector<float> y(6);
        linear_forward<geometry, 2>(reference{}, x, w, none, y.data());
        CHECK(y == std::vector<float>{31, 42, 62, 84, 93, 126});
        portable_equals_reference<linear_geometry<33, 25, 1, false>, 1, float>();
        portable_equals_reference<linear_geometry<33, 25, 1, false>, 16, float>(); // one column is left for a bias
        portable_equals_reference<linear_geometry<32, 25, 1, false>, 16, float>();
        portable_equals_reference<linear_geometry<33, 25, 1, false>, 6, double>();
    }
}

} // namespace device_linear_test
