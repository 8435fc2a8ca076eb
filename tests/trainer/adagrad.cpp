// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <doctest/doctest.h>
#include <support/optimizers.hpp>

namespace trainer_adagrad_test {
using namespace trireme;
using namespace test_optimizers;
using test_networks::small;

TEST_SUITE("trainer/adagrad") {
    TEST_CASE("steps are those of the formula") { adagrad_follows_its_formula<host, small>(1e-9); }

    TEST_CASE("weights have one device's bits on any number of replicas and stages") {
        has_one_devices_bits<adagrad, host, small, clip_norm>();
    }

    TEST_CASE("so they have where devices hold one copy of the weights, each with a slice of the sums") {
        is_alike_with_weights_held_once<adagrad, host, small>();
    }
}

} // namespace trainer_adagrad_test
