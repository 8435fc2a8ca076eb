// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/optimizers.hpp>

namespace rehearsed_adagrad_test {
using namespace trireme;
using namespace rehearsed;
using namespace test_optimizers;

TEST_SUITE("rehearsed/adagrad") {
    TEST_CASE("steps are those of the formula") {
        on_stage const as_usual;
        adagrad_follows_its_formula<rehearsal, tiny>(1e-9);
    }

    TEST_CASE("weights have one device's bits, however late or shuffled work is done") {
        for (auto const when : {timing::late, timing::shuffled}) {
            on_stage const how(when, 3);
            has_one_devices_bits<adagrad, rehearsal, tiny>();
        }
    }
}

} // namespace rehearsed_adagrad_test
