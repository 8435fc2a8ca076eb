// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/core/deadline.hpp>

#include <doctest/doctest.h>

#include <limits>

namespace core_deadline_test {
namespace {

using trireme::deadline;
using seconds = std::chrono::duration<double>;

} // namespace

TEST_SUITE("core/deadline") {
    TEST_CASE("a deadline passes after its time and not before") {
        auto const before = deadline::clock::now();
        auto const d = deadline::in(std::chrono::milliseconds(20));
        CHECK(d.at() >= before + std::chrono::milliseconds(20));
        while (!d.passed() && deadline::clock::now() - before < std::chrono::seconds(20)) {}
        CHECK(d.passed());
        CHECK(deadline::clock::now() >= d.at());
        CHECK(d.left() <= deadline::clock::duration::zero());
    }

    TEST_CASE("no time and negative time have passed at once") {
        CHECK(deadline::in(seconds(0)).passed());
        CHECK(deadline::in(seconds(-5)).passed());
    }

    TEST_CASE("times beyond all clocks are practically never") {
        for (double const s : {1e10, 1e300, std::numeric_limits<double>::infinity()}) {
            auto const d = deadline::in(seconds(s));
            CHECK(!d.passed());
            CHECK(d.left() > std::chrono::hours(24 * 3649));
        }
    }
}

} // namespace core_deadline_test
