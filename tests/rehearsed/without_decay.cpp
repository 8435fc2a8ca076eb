// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/decay.hpp>
#include <support/optimizers.hpp>

namespace rehearsed_without_decay_test {
using namespace trireme;
using namespace rehearsed;
using namespace test_decay;
using namespace test_optimizers;

TEST_SUITE("rehearsed/without_decay") {
    TEST_CASE("each tensor decays, or does not, as a rule says") {
        on_stage const as_usual;
        follows_one_of_two<rehearsal, adamw, biases, norms>("dnnndndn", 1);
        follows_one_of_two<rehearsal, sgd_momentum, matrices>("ddddndnd", 2);
        follows_one_of_two<rehearsal, rmsprop_momentum, of_at_least<200>>("ndddndnd", 1);
        follows_one_of_two<rehearsal, adagrad, in_layer<1, 7>>("nnddddnn", 1);
    }

    TEST_CASE("weights have one device's bits, however late or shuffled work is done") {
        for (auto const when : {timing::late, timing::shuffled}) {
            on_stage const how(when, 3);
            has_one_devices_bits<adamw, rehearsal, with_norms, without_decay<biases, norms>>();
        }
    }
}

} // namespace rehearsed_without_decay_test
