// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <doctest/doctest.h>
#include <support/rates.hpp>

namespace trainer_rates_test {
using namespace trireme;
using namespace test_rates;

TEST_SUITE("trainer/rates") {
    TEST_CASE("a schedule of rates is the rate set by hand before each step") {
        for (int const devices : {1, 2}) is_the_rate_set_by_hand<host, test_networks::small>(devices);
    }

    TEST_CASE("a rate that scales is that of the batch") { grows_with_the_batch<host, test_networks::small>(); }

    TEST_CASE("replicas and stages have the bits of one device whose rate is set by hand, by every schedule") {
        has_one_devices_bits<host, test_networks::small>();
    }

    TEST_CASE("a schedule without a rate is refused before anything is made") {
        using trainer_t = trainer<test_networks::small, cross_entropy, adamw>;
        CHECK_THROWS_WITH_AS((trainer_t{{.rate = cosine_rate{.steps = 1, .warm_up = 3}}}),
                             doctest::Contains("cosine_rate{.steps = 1}: it must be above .warm_up = 3"), usage_error);
    }
}

} // namespace trainer_rates_test
