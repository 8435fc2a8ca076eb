// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <doctest/doctest.h>
#include <support/optimizers.hpp>

namespace trainer_rmsprop_test {
using namespace trireme;
using namespace test_optimizers;
using test_networks::small;

TEST_SUITE("trainer/rmsprop") {
    TEST_CASE("steps are those of the formula") { rmsprop_follows_its_formula<host, small>(1e-9); }

    TEST_CASE("weights have one device's bits on any number of replicas and stages") {
        has_one_devices_bits<rmsprop, host, small, clip_norm>();
        has_one_devices_bits<rmsprop_momentum, host, small>();
    }

    TEST_CASE("so they have where devices hold one copy of the weights, each with a slice of the means") {
        is_alike_with_weights_held_once<rmsprop_momentum, host, small>();
    }
}

} // namespace trainer_rmsprop_test
