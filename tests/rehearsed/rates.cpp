// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/rates.hpp>

TEST_SUITE("rehearsed/rates") {
    TEST_CASE("no rate is frozen in a captured step") {
        rehearsed::on_stage const as_usual;
        for (int const devices : {1, 2})
            test_rates::is_the_rate_set_by_hand<trireme::rehearsal, rehearsed::tiny>(devices);
    }

    TEST_CASE("a rate that scales is that of the batch") {
        rehearsed::on_stage const as_usual;
        test_rates::grows_with_the_batch<trireme::rehearsal, rehearsed::tiny>();
    }

    TEST_CASE("rates and weights have their bits whatever the floating-point environment of the caller") {
        rehearsed::on_stage const as_usual;
        test_rates::has_the_bits_of_default_floats<trireme::rehearsal, rehearsed::tiny>();
    }
}
