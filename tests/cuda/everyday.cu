// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Predictions, models, changing images, largest norms and rates that change, on a GPU. The host's tests have the same
// cases, for more ranks and networks.

#include <cuda/patient.hpp>
#include <support/changing.hpp>
#include <support/clipping.hpp>
#include <support/compare.hpp>
#include <support/networks.hpp>
#include <support/predicting.hpp>
#include <support/rates.hpp>

#include <trireme/cuda.hpp>

#include <doctest/doctest.h>

#include <cstdint>

namespace cuda_everyday_test {
using namespace trireme;
using cuda_test::patient;
using test_networks::made_up;
using test_networks::small;
using test_predicting::values_of;

TEST_SUITE("cuda/everyday") {
    TEST_CASE("a trainer predicts what it evaluates, and a model with its weights nearly the same") {
        using learner = trainer<small, cross_entropy, sgd, on<mesh<gpu, dp<1>>>>;
        using asked_only = model<small, on<mesh<gpu, dp<1>>>>;
        learner t({.learning_rate = 0.1f, .batch = 48}, patient(learner::run_options{}));
        t.step(made_up(48));
        auto const asked = made_up(101, 3);
        test_predicting::agree(t, asked, 1e-5);
        asked_only m({.batch = 20}, patient(asked_only::run_options{}));
        m.load_parameters(t.gather_parameters());
        CHECK(test_support::apart(values_of(m.predict(asked)), values_of(t.predict(asked))) < 1e-5);
    }

    TEST_CASE("steps see changed images, bytes and numbers") {
        test_changing::see_the_same_changes<gpu, std::uint8_t>(1);
        test_changing::see_the_same_changes<gpu, float>(1);
    }

    TEST_CASE("a step is shortened to the largest norm") { test_clipping::is_shortened<gpu, small>(1e-9); }

    TEST_CASE("no rate is frozen in a captured step, and a rate that scales is that of the batch") {
        test_rates::is_the_rate_set_by_hand<gpu, small>(1);
        test_rates::grows_with_the_batch<gpu, small>();
    }
}

} // namespace cuda_everyday_test
