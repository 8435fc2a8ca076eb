// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <sstream>
#include <string>

namespace trainer_reports_test {
using namespace trireme;

namespace {

template<class Report>
std::string printed(Report const& report) {
    std::ostringstream out;
    out << report;
    CHECK(out.str() == to_string(report));
    return out.str();
}

} // namespace

TEST_SUITE("trainer/reports") {
    TEST_CASE("the report of a step is printed in one line") {
        step_report s{.step = 12, .loss = 0.69314718, .samples = 64};
        CHECK(printed(s) == "step 12  loss 0.6931  64 samples");
        s.gradient_norm = 3.14159265;
        CHECK(printed(s) == "step 12  loss 0.6931  64 samples  gradient norm 3.142");
        s = {.step = 1, .loss = 123456789, .samples = 1};
        CHECK(printed(s) == "step 1  loss 1.235e+08  1 sample");
    }

    TEST_CASE("an evaluation is printed in one line, with the accuracy if there is one") {
        CHECK(printed(evaluation{.loss = 0.25, .accuracy = 0.875, .samples = 1000}) ==
              "loss 0.2500  accuracy 0.8750  1000 samples");
        auto const none = std::numeric_limits<double>::quiet_NaN();
        CHECK(printed(evaluation{.loss = 0.25, .accuracy = none, .samples = 1}) == "loss 0.2500  1 sample");
    }

    TEST_CASE("what a trainer returns can be printed") {
        using net = network<input<2>, linear<2>>;
        trainer<net, cross_entropy, sgd, clip_norm> t;
        float const numbers[] = {1, 2, 3, 4};
        int const labels[] = {0, 1};
        samples_in_memory const samples(numbers, make_shape(2), labels, 2);
        auto const step = printed(t.step(samples));
        CHECK(step.starts_with("step 1  loss "));
        CHECK(step.find("  2 samples  gradient norm ") != std::string::npos);
        CHECK(printed(t.evaluate(samples)).starts_with("loss "));
        CHECK(printed(t.plan()).starts_with("batch               32 samples on 1 device\nparameters          6\n"));
    }
}

} // namespace trainer_reports_test
