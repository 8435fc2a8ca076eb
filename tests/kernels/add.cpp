// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable/add.hpp>
#include <trireme/kernels/reference/add.hpp>

#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <vector>

namespace device_add_test {
using namespace trireme;

namespace {

/// A sum of two numbers is rounded once, so both have the same bits.
template<class T>
void portable_equals_reference(std::size_t n) {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(n);
    CAPTURE(sizeof(T));
    auto const a = numbers::uniform<T>(0, n), b = numbers::uniform<T>(1, n);
    auto y = numbers::unset<T>(n + 1), expected = y; // with one number behind the end, which stays
    add_values(portable{}, a.data(), b.data(), y.data(), n);
    add_values(reference{}, a.data(), b.data(), expected.data(), n);
    CHECK(std::isnan(y.back()));
    y.pop_back();
    expected.pop_back();
    CHECK(y == expected);

    auto over_a = a, over_b = b, doubled = a;
    add_values(portable{}, over_a.data(), b.data(), over_a.data(), n);
    CHECK(over_a == expected);
    add_values(portable{}, a.data(), over_b.data(), over_b.data(), n);
    CHECK(over_b == expected);
    add_values(portable{}, doubled.data(), doubled.data(), doubled.data(), n);
    bool right = true;
    for (std::size_t i = 0; i < n; ++i) right = right && doubled[i] == 2 * a[i];
    CHECK(right);
}

} // namespace

TEST_SUITE("kernels/add") {
    TEST_CASE("portable equals reference for any length, also in place") {
        for (std::size_t const n : std::initializer_list<std::size_t>{0, 1, 3, 16, 17, 64, 1000}) {
            portable_equals_reference<float>(n);
            portable_equals_reference<double>(n);
        }
    }
}

} // namespace device_add_test
