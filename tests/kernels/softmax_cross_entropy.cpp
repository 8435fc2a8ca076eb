// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable/softmax_cross_entropy.hpp>
#include <trireme/kernels/reference/softmax_cross_entropy.hpp>

#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace device_softmax_cross_entropy_test {
using namespace trireme;

namespace {

template<std::size_t Classes, std::size_t Lanes, class T>
void portable_equals_reference() {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(Classes);
    CAPTURE(Lanes);
    CAPTURE(sizeof(T));
    auto logits = numbers::uniform<T>(0, Classes * Lanes, 4);
    if (Classes > 1) logits[Lanes] = logits[0]; // a tie
    auto const weight = numbers::uniform<T>(1, Lanes);
    std::vector<int> labels(Lanes);
    random_stream const random(numbers::seed(), random_purpose::user, 2);
    for (std::size_t i = 0; i < Lanes; ++i) labels[i] = static_cast<int>(random.below(i, Classes));

    auto dlogits = numbers::unset<T>(Classes * Lanes), expected_dlogits = dlogits;
    auto loss = numbers::unset<T>(Lanes), expected_loss = loss, evaluated = loss, expected_evaluated = loss;
    std::vector<int> correct(Lanes, -1), expected_correct(Lanes, -1);
    auto const* l = labels.data();
    softmax_cross_entropy<Classes, Lanes>(portable{}, logits.data(), l, weight.data(), dlogits.data(), loss.data());
    softmax_cross_entropy<Classes, Lanes>(reference{}, logits.data(), l, weight.data(), expected_dlogits.data(),
                                          expected_loss.data());
    softmax_cross_entropy_loss<Classes, Lanes>(portable{}, logits.data(), l, evaluated.data(), correct.data());
    softmax_cross_entropy_loss<Classes, Lanes>(reference{}, logits.data(), l, expected_evaluated.data(),
                                               expected_correct.data());
    CHECK(numbers::apart(dlogits, expected_dlogits, Classes) <= 1);
    CHECK(numbers::apart(loss, expected_loss, Classes + 8) <= 1); // the loss is up to 8 + log(Classes) large
    CHECK(evaluated == loss);
    CHECK(expected_evaluated == expected_loss);
    CHECK(correct == expected_correct);
}

template<std::size_t Lanes, class T>
void all_classes() {
    portable_equals_reference<10, Lanes, T>();
    portable_equals_reference<1, Lanes, T>();
    portable_equals_reference<2, Lanes, T>();
    portable_equals_reference<101, Lanes, T>();
}

template<class Policy>
void by_hand() {
    // softmax = (1/4, 3/4), two samples that differ by a shift; the second is a copy that fills the granule
    double const third = std::log(3.0);
    std::vector<double> const logits{0, 1000, third, 1000 + third}, weight{0.5, 0};
    std::vector<int> const labels{0, 1};
    std::vector<double> dlogits(4, 9.0), loss(2, 9.0);
    softmax_cross_entropy<2, 2>(Policy{}, logits.data(), labels.data(), weight.data(), dlogits.data(), loss.data());
    CHECK(loss[0] == doctest::Approx(std::log(4.0)).epsilon(1e-14));
    CHECK(loss[1] == doctest::Approx(std::log(4.0 / 3)).epsilon(1e-12));
    CHECK(dlogits[0] == doctest::Approx(0.5 * (0.25 - 1)).epsilon(1e-14));
    CHECK(dlogits[2] == doctest::Approx(0.5 * 0.75).epsilon(1e-14));
    CHECK(dlogits[1] == 0);
    CHECK(dlogits[3] == 0);
}

template<class Policy>
void extremes() {
    // far apart: no overflow, and a loss that is not infinite
    float const logits[] = {-3e4f, 3e4f};
    int const labels[] = {0};
    float const weight[] = {1};
    float dlogits[2], loss[1];
    int correct[1];
    softmax_cross_entropy<2, 1>(Policy{}, logits, labels, weight, dlogits, loss);
    CHECK(loss[0] == 6e4f);
    CHECK(dlogits[0] == -1);
    CHECK(dlogits[1] == 1);

    // a NaN is not hidden
    float const broken[] = {1, std::numeric_limits<float>::quiet_NaN()};
    softmax_cross_entropy<2, 1>(Policy{}, broken, labels, weight, dlogits, loss);
    CHECK(std::isnan(loss[0]));
    CHECK(std::isnan(dlogits[0]));
    softmax_cross_entropy_loss<2, 1>(Policy{}, broken, labels, loss, correct);
    CHECK(std::isnan(loss[0]));
    CHECK(correct[0] == 0);

    // the first of equal logits counts, and of several NaN
    int const second[] = {1};
    for (float const x : {1.0f, std::numeric_limits<float>::quiet_NaN()}) {
        float const tie[] = {x, x};
        softmax_cross_entropy_loss<2, 1>(Policy{}, tie, labels, loss, correct);
        CHECK(correct[0] == 1);
        softmax_cross_entropy_loss<2, 1>(Policy{}, tie, second, loss, correct);
        CHECK(correct[0] == 0);
    }
}

} // namespace

TEST_SUITE("kernels/softmax_cross_entropy") {
    TEST_CASE("two samples by hand") {
        by_hand<reference>();
        by_hand<portable>();
    }

    TEST_CASE("logits far apart, NaN and ties") {
        extremes<reference>();
        extremes<portable>();
    }

    TEST_CASE("portable equals reference") {
        all_classes<1, float>();
        all_classes<4, float>();
        all_classes<6, float>();
        all_classes<16, float>();
        all_classes<1, double>();
        all_classes<4, double>();
        all_classes<16, double>();
    }
}

} // namespace device_softmax_cross_entropy_test
