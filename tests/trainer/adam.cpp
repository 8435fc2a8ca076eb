// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <doctest/doctest.h>
#include <support/adam.hpp>

namespace trainer_adam_test {
using namespace trireme;
using namespace test_adam;
using test_networks::small;

TEST_SUITE("trainer/adam") {
    TEST_CASE("steps are those of the paper") { follows_the_paper<host, small>(1e-9); }

    TEST_CASE("weights have one device's bits on any number of replicas and stages") {
        has_one_devices_bits<adam, host, small>();
        has_one_devices_bits<adamw, host, small, clip_norm>();
    }

    TEST_CASE("so they have where devices hold one copy of the weights, each with a slice of the means") {
        using per_device_t = trainer<small, cross_entropy, adamw, on<mesh<host, dp<3>>>>;
        using once_t = trainer<small, cross_entropy, adamw, on<mesh<host, dp<3>>>, hold_weights<once>>;
        per_device_t apart({.learning_rate = 0.01f, .batch = 50});
        once_t together({.learning_rate = 0.01f, .batch = 50});
        CHECK(train(together) == train(apart));
    }
}

} // namespace trainer_adam_test
