// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/blocks/add.hpp>
#include <trireme/kernels/reference/add.hpp>

#include <kernels/blocks/rig.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace device_blocks_add_test {
using namespace trireme;
using namespace blocks_test;

namespace {

template<class T>
void blocks_equal_reference(std::size_t samples, std::size_t n) {
    CAPTURE(samples);
    CAPTURE(n);
    auto const a = uniform<T>(0, samples * n), b = uniform<T>(1, samples * n);
    auto const wa = wide(a), wb = wide(b);
    auto y = unset<T>(a.size());
    CHECK(same_in_every_order(samples, 0, y,
                              [&](rehearsal_kernels const& k) { add_values(k, a.data(), b.data(), y.data(), n); }));
    auto expected = wa;
    add_values(reference{}, wa.data(), wb.data(), expected.data(), expected.size());
    CHECK(apart(y, expected, 1) <= 1);
    auto first = a, second = b; // y may be either
    rehearse(0, samples, 0, [&](rehearsal_kernels const& k) {
        add_values(k, static_cast<T const*>(first.data()), b.data(), first.data(), n);
        add_values(k, a.data(), static_cast<T const*>(second.data()), second.data(), n);
    });
    CHECK(wide(first) == wide(y));
    CHECK(wide(second) == wide(y));
}

} // namespace

TEST_SUITE("kernels/blocks/add") {
    TEST_CASE("blocks equal the reference") {
        for (std::size_t const samples : std::initializer_list<std::size_t>{0, 1, 5, 33}) {
            blocks_equal_reference<float>(samples, 7);
            blocks_equal_reference<double>(samples, 257);
            blocks_equal_reference<bf16>(samples, 20);
        }
    }
}

} // namespace device_blocks_add_test
