// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/device/host/floats.hpp>

#include <doctest/doctest.h>
#include <support/floats.hpp>

#include <limits>
#include <optional>
#include <stdexcept>

namespace device_floats_test {
using namespace trireme;

TEST_SUITE("device/floats") {
    TEST_CASE("another environment is noticed, is set right as long as it is asked for, and comes back") {
        CHECK(floats_are_default());
        for (auto const which : all_other_floats()) {
            CAPTURE(static_cast<int>(which));
            in_other_floats const other(which);
            CHECK_FALSE(floats_are_default());
            {
                default_floats const floats;
                CHECK(floats_are_default());
            }
            CHECK(other.holds());
            CHECK_THROWS_AS(with_default_floats([] { throw std::runtime_error("on the way"); }), std::runtime_error);
            CHECK(other.holds());
        }
        CHECK(floats_are_default());
    }

    TEST_CASE("arithmetic stays inside, also where its operands are known before and its result is used after") {
        for (auto const which : all_other_floats()) {
            float const one = static_cast<float>(all_other_floats().size() > 0);
            auto const smallest = std::numeric_limits<float>::min() * one;
            std::optional<in_other_floats> other(which);
            auto const third = with_default_floats([&] { return one / (one + one + one); });
            auto const half = with_default_floats([&] { return smallest / (one + one); });
            CHECK(other->holds());
            other.reset(); // in which a comparison, too, may flush
            CHECK(third == 1.0f / 3);
            CHECK(half > 0);
        }
    }
}

} // namespace device_floats_test
