// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable/sgd.hpp>
#include <trireme/kernels/reference/sgd.hpp>

#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace device_sgd_test {
using namespace trireme;

namespace {

template<class T>
struct state {
    std::vector<T> w, velocity;
    bool operator==(state const&) const = default;
};

/// One step of rule 0 (plain), 1 (momentum) or 2 (nesterov) on places [begin, end).
template<class Policy, class T>
void step(int rule, state<T>& s, std::vector<T> const& g, std::size_t begin, std::size_t end) {
    T const rate = T(0.3), momentum = T(0.9), decay = T(0.01);
    T *const w = s.w.data() + begin, *const velocity = s.velocity.data() + begin;
    T const* const gradient = g.data() + begin;
    std::size_t const n = end - begin;
    if (rule == 0) sgd_update(Policy{}, w, gradient, n, {rate, decay});
    if (rule == 1) sgd_momentum_update(Policy{}, w, velocity, gradient, n, {rate, decay, momentum});
    if (rule == 2) sgd_nesterov_update(Policy{}, w, velocity, gradient, n, {rate, decay, momentum});
}

template<class T>
void portable_equals_reference(std::size_t n) {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(n);
    CAPTURE(sizeof(T));
    auto const g = numbers::uniform<T>(0, n);
    for (int rule : {0, 1, 2}) {
        CAPTURE(rule);
        state<T> const before{numbers::uniform<T>(1, n), numbers::uniform<T>(2, n)};
        auto expected = before, whole = before, parts = before;
        step<reference>(rule, expected, g, 0, n);
        step<portable>(rule, whole, g, 0, n);
        CHECK(numbers::apart(whole.w, expected.w, 4) <= 1);
        CHECK(numbers::apart(whole.velocity, expected.velocity, 3) <= 1);

        // a weight's bits do not depend on how the array was cut
        step<portable>(rule, parts, g, 0, n / 3);
        step<portable>(rule, parts, g, n / 3, n);
        CHECK(parts == whole);
    }
}

template<class Policy>
void by_hand() {
    state<float> s{{1, 2, 3}, {10, 20, 30}};
    std::vector<float> const g{4, 8, 12};
    sgd_update(Policy{}, s.w.data(), g.data(), 3, {0.5f, 0.25f});
    CHECK(s.w == std::vector<float>{1 - 0.5f * 4.25f, 2 - 0.5f * 8.5f, 3 - 0.5f * 12.75f});
    CHECK(s.velocity == std::vector<float>{10, 20, 30});

    s.w = {1, 2, 3};
    sgd_momentum_update(Policy{}, s.w.data(), s.velocity.data(), g.data(), 3, {0.5f, 0.25f, 0.5f});
    CHECK(s.velocity == std::vector<float>{9.25f, 18.5f, 27.75f});
    CHECK(s.w == std::vector<float>{1 - 4.625f, 2 - 9.25f, 3 - 13.875f});

    s = {{1, 2, 3}, {10, 20, 30}};
    sgd_nesterov_update(Policy{}, s.w.data(), s.velocity.data(), g.data(), 3, {0.5f, 0.25f, 0.5f});
    CHECK(s.velocity == std::vector<float>{9.25f, 18.5f, 27.75f});
    CHECK(s.w ==
          std::vector<float>{1 - 0.5f * (4.25f + 4.625f), 2 - 0.5f * (8.5f + 9.25f), 3 - 0.5f * (12.75f + 13.875f)});
}

} // namespace

TEST_SUITE("kernels/sgd") {
    TEST_CASE("updates by hand") {
        by_hand<reference>();
        by_hand<portable>();
    }

    TEST_CASE("portable equals reference, however the array is cut") {
        for (std::size_t n : std::initializer_list<std::size_t>{0, 1, 3, 15, 16, 17, 64, 1000}) {
            portable_equals_reference<float>(n);
            portable_equals_reference<double>(n);
        }
    }
}

} // namespace device_sgd_test
