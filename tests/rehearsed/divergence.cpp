// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A loss that is not finite ends a training on accelerators, at the step; their weights have been changed by it.

#include <trireme/rehearsal.hpp>

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/diverging.hpp>
#include <support/networks.hpp>

namespace rehearsed_divergence_test {
using namespace trireme;
using namespace rehearsed;
using namespace test_diverging;

TEST_SUITE("rehearsed/divergence") {
    TEST_CASE("a step and an epoch end, and weights may be loaded again") {
        on_stage const how(timing::shuffled, 5);
        using t = test_networks::any_stages<rehearsal, table_network, mean_squared_error, adam>;
        ends_an_epoch<t>(2, 1, 0, false);
        ends_an_epoch<t>(1, 2, 6, false);
        t one({.batch = 24});
        table const good(24);
        auto const weights = one.gather_parameters();
        CHECK(divergence_of([&] { one.step(table(24, 3, std::numeric_limits<float>::quiet_NaN())); }) == changed);
        one.load_parameters(weights);
        CHECK(std::isfinite(one.evaluate(good).loss));
    }

    TEST_CASE("samples that are no numbers change nothing of a later step on fewer, wherever they were evaluated") {
        on_stage const how(timing::shuffled, 5);
        using t = test_networks::any_stages<rehearsal, table_network, mean_squared_error, adam>;
        t before({.batch = 24}), never({.batch = 24});
        table bad(24, 20, std::numeric_limits<float>::quiet_NaN());
        bad.inputs[6 * 21] = std::numeric_limits<float>::quiet_NaN();
        CHECK(!std::isfinite(before.evaluate(bad).loss));
        for (std::size_t const samples : {11u, 17u, 5u}) {
            table const few(samples);
            for (auto* const of : {&before, &never}) CHECK(std::isfinite(of->step(few).loss));
            CHECK(before.gather_parameters() == never.gather_parameters());
        }
    }
}

} // namespace rehearsed_divergence_test
