// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable/soft_cross_entropy.hpp>
#include <trireme/kernels/reference/soft_cross_entropy.hpp>

#include <kernels/cases.hpp>
#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace device_soft_cross_entropy_test {
using namespace trireme;
using kernel_cases::some_weights;

namespace {

constexpr int none = std::numeric_limits<int>::min();

struct one_and_three {
    static constexpr double of[] = {1, 3};
};
struct none_and_two {
    static constexpr double of[] = {0, 2};
};

template<class Targets, std::size_t Classes, std::size_t Lanes, class T>
void portable_equals_reference(int ignored) {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(Classes);
    CAPTURE(Lanes);
    CAPTURE(sizeof(T));
    CAPTURE(Targets::of_each);
    CAPTURE(ignored);
    auto logits = numbers::uniform<T>(0, Classes * Lanes, 4);
    if (Classes > 1) logits[Lanes] = logits[0]; // a tie
    auto const weight = numbers::uniform<T>(1, Lanes);
    std::vector<int> labels(Lanes);
    random_stream const random(numbers::seed(), random_purpose::user, 2);
    for (std::size_t i = 0; i < Lanes; ++i) {
        labels[i] = static_cast<int>(random.below(i, Classes));
        if (ignored != none && random.below(Lanes + i, 4) == 0) labels[i] = ignored;
    }

    auto dlogits = numbers::unset<T>(Classes * Lanes), expected_dlogits = dlogits;
    auto loss = numbers::unset<T>(Lanes), expected_loss = loss, evaluated = loss, expected_evaluated = loss;
    std::vector<int> correct(Lanes, -1), expected_correct(Lanes, -1);
    auto const* l = labels.data();
    auto const *x = logits.data(), *w = weight.data();
    soft_cross_entropy_gradient<Targets, Classes, Lanes>(portable{}, x, l, w, dlogits.data(), loss.data());
    soft_cross_entropy_gradient<Targets, Classes, Lanes>(reference{}, x, l, w, expected_dlogits.data(),
                                                         expected_loss.data());
    soft_cross_entropy<Targets, Classes, Lanes>(portable{}, x, l, evaluated.data(), correct.data());
    soft_cross_entropy<Targets, Classes, Lanes>(reference{}, x, l, expected_evaluated.data(), expected_correct.data());
    CHECK(numbers::apart(dlogits, expected_dlogits, 4 * Classes) <= 1);
    CHECK(numbers::apart(loss, expected_loss, 4 * Classes + 32) <= 1); // a loss is up to 1.5 * (8 + log(Classes)) large
    CHECK(evaluated == loss);
    CHECK(expected_evaluated == expected_loss);
    CHECK(correct == expected_correct);
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        if (labels[lane] != ignored) continue;
        CHECK((loss[lane] == 0 && correct[lane] == 0));
        for (std::size_t c = 0; c < Classes; ++c) CHECK(dlogits[c * Lanes + lane] == 0);
    }
}

/// Each kind of targets with each number of samples, classes and bytes; and so has any two of the four.
template<std::size_t Kind, std::size_t Place>
void one_of_the_pairs() {
    constexpr std::size_t classes = std::array{1, 2, 10, 101}[(Kind + Place) % 4],
                          lanes = std::array{1, 4, 6, 16}[Place];
    using number = std::conditional_t<(Kind / 2 + Place) % 2 == 0, float, double>;
    using weights = some_weights<classes>;
    using kinds = std::tuple<soft_targets<classes, 0, void, none>, soft_targets<classes, 10, void, none>,
                             soft_targets<classes, 0, weights, none>, soft_targets<classes, 0, void, -100>,
                             soft_targets<classes, 0, void, 255>, soft_targets<classes, 30, weights, -1>>;
    constexpr int ignored[] = {none, none, none, -100, 255, -1};
    portable_equals_reference<std::tuple_element_t<Kind, kinds>, classes, lanes, number>(ignored[Kind]);
}

/// softmax = (1/4, 3/4) of logits (x, x + log 3). Three samples: labels 0 and 1, and one that is ignored.
template<class Policy>
void by_hand() {
    double const third = std::log(3.0);
    std::vector<double> const logits{0, 1000, -5, third, 1000 + third, -5 + third}, weight{0.5, 2, 7};
    std::vector<int> const labels{0, 1, -1};
    std::vector<double> dlogits(6, 9.0), loss(3, 9.0), evaluated(3, 9.0);
    std::vector<int> correct(3, 9);
    auto const near = [](double result, double truth) { CHECK(result == doctest::Approx(truth).epsilon(1e-12)); };
    double const of_first = std::log(4.0), of_second = std::log(4.0 / 3); // -log softmax

    using smooth = soft_targets<2, 20, void, -1>; // q = (0.9, 0.1) of label 0
    soft_cross_entropy_gradient<smooth, 2, 3>(Policy{}, logits.data(), labels.data(), weight.data(), dlogits.data(),
                                              loss.data());
    near(loss[0], 0.9 * of_first + 0.1 * of_second);
    near(loss[1], 0.1 * of_first + 0.9 * of_second);
    near(dlogits[0], 0.5 * (0.25 - 0.9));
    near(dlogits[3], 0.5 * (0.75 - 0.1));
    near(dlogits[1], 2 * (0.25 - 0.1));
    near(dlogits[4], 2 * (0.75 - 0.9));
    CHECK((loss[2] == 0 && dlogits[2] == 0 && dlogits[5] == 0));

    using weighted = soft_targets<2, 0, one_and_three, -1>; // q = (1, 0), or (0, 3)
    soft_cross_entropy_gradient<weighted, 2, 3>(Policy{}, logits.data(), labels.data(), weight.data(), dlogits.data(),
                                                loss.data());
    near(loss[0], of_first);
    near(loss[1], 3 * of_second);
    near(dlogits[0], 0.5 * (0.25 - 1));
    near(dlogits[4], 2 * 3 * (0.75 - 1));

    using both = soft_targets<2, 20, one_and_three, -1>; // q = 0.8 (1, 0) + (0.1, 0.3), or 0.8 (0, 3) + (0.1, 0.3)
    soft_cross_entropy_gradient<both, 2, 3>(Policy{}, logits.data(), labels.data(), weight.data(), dlogits.data(),
                                            loss.data());
    near(loss[0], 0.9 * of_first + 0.3 * of_second);
    near(loss[1], 0.1 * of_first + 2.7 * of_second);
    near(dlogits[0], 0.5 * (1.2 * 0.25 - 0.9));
    near(dlogits[3], 0.5 * (1.2 * 0.75 - 0.3));
    near(dlogits[1], 2 * (2.8 * 0.25 - 0.1));
    near(dlogits[4], 2 * (2.8 * 0.75 - 2.7));
    CHECK((loss[2] == 0 && dlogits[2] == 0 && dlogits[5] == 0));
    soft_cross_entropy<both, 2, 3>(Policy{}, logits.data(), labels.data(), evaluated.data(), correct.data());
    CHECK(evaluated == loss);
    CHECK(correct == std::vector<int>{0, 1, 0});
}

/// A label of weight 0 is neither right nor wrong; what is spread remains.
template<class Policy>
void no_weight() {
    float const logits[] = {5, 0};
    int const labels[] = {0};
    float const weight[] = {1};
    float dlogits[2], loss[1];
    int correct[1];
    soft_cross_entropy<soft_targets<2, 0, none_and_two, none>, 2, 1>(Policy{}, logits, labels, loss, correct);
    CHECK((loss[0] == 0 && correct[0] == 0));
    soft_cross_entropy_gradient<soft_targets<2, 0, none_and_two, none>, 2, 1>(Policy{}, logits, labels, weight, dlogits,
                                                                              loss);
    CHECK((loss[0] == 0 && dlogits[0] == 0 && dlogits[1] == 0));
    soft_cross_entropy<soft_targets<2, 50, none_and_two, none>, 2, 1>(Policy{}, logits, labels, loss, correct);
    CHECK(loss[0] == doctest::Approx(0.5 * (5 + std::log1p(std::exp(-5.0)))).epsilon(1e-6));
    CHECK(correct[0] == 0);
}

template<class Policy>
void extremes() {
    using plain = soft_targets<2, 0, void, none>;
    using smooth = soft_targets<2, 10, void, none>;
    float const nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    // far apart: no overflow, and a loss that is not infinite
    float const logits[] = {-3e4f, 3e4f};
    int const labels[] = {0}, ignored[] = {-7};
    float const weight[] = {1};
    float dlogits[2], loss[1];
    int correct[1];
    soft_cross_entropy_gradient<plain, 2, 1>(Policy{}, logits, labels, weight, dlogits, loss);
    CHECK((loss[0] == 6e4f && dlogits[0] == -1 && dlogits[1] == 1));
    soft_cross_entropy_gradient<smooth, 2, 1>(Policy{}, logits, labels, weight, dlogits, loss);
    CHECK(loss[0] == doctest::Approx(0.95 * 6e4).epsilon(1e-6));
    CHECK(dlogits[0] == doctest::Approx(-0.95).epsilon(1e-6));
    CHECK(dlogits[1] == doctest::Approx(0.95).epsilon(1e-6));

    // a NaN is not hidden, but in a sample that is ignored
    float const broken[] = {1, nan}, endless[] = {infinity, 1};
    soft_cross_entropy_gradient<smooth, 2, 1>(Policy{}, broken, labels, weight, dlogits, loss);
    CHECK((std::isnan(loss[0]) && std::isnan(dlogits[0])));
    soft_cross_entropy<smooth, 2, 1>(Policy{}, broken, labels, loss, correct);
    CHECK((std::isnan(loss[0]) && correct[0] == 0));
    for (auto const* x : {broken, endless}) {
        dlogits[0] = dlogits[1] = loss[0] = nan;
        soft_cross_entropy_gradient<soft_targets<2, 0, void, -7>, 2, 1>(Policy{}, x, ignored, weight, dlogits, loss);
        CHECK((loss[0] == 0 && dlogits[0] == 0 && dlogits[1] == 0));
        dlogits[0] = dlogits[1] = loss[0] = nan;
        soft_cross_entropy_gradient<soft_targets<2, 10, void, -7>, 2, 1>(Policy{}, x, ignored, weight, dlogits, loss);
        CHECK((loss[0] == 0 && dlogits[0] == 0 && dlogits[1] == 0));
        loss[0] = nan;
        soft_cross_entropy<soft_targets<2, 10, void, -7>, 2, 1>(Policy{}, x, ignored, loss, correct);
        CHECK((loss[0] == 0 && correct[0] == 0));
    }

    // a class that is ruled out costs nothing, unless it has a share of the target
    float const masked[] = {2, -infinity};
    soft_cross_entropy_gradient<plain, 2, 1>(Policy{}, masked, labels, weight, dlogits, loss);
    CHECK((loss[0] == 0 && dlogits[0] == 0 && dlogits[1] == 0));
    soft_cross_entropy<plain, 2, 1>(Policy{}, masked, labels, loss, correct);
    CHECK((loss[0] == 0 && correct[0] == 1));
    soft_cross_entropy<smooth, 2, 1>(Policy{}, masked, labels, loss, correct);
    CHECK(loss[0] == infinity);

    // the first of equal logits counts, and of several NaN
    int const second[] = {1};
    for (float const x : {1.0f, nan}) {
        float const tie[] = {x, x};
        soft_cross_entropy<smooth, 2, 1>(Policy{}, tie, labels, loss, correct);
        CHECK(correct[0] == 1);
        soft_cross_entropy<smooth, 2, 1>(Policy{}, tie, second, loss, correct);
        CHECK(correct[0] == 0);
    }
}

} // namespace

TEST_SUITE("kernels/soft_cross_entropy") {
    TEST_CASE("three samples by hand") {
        by_hand<reference>();
        by_hand<portable>();
    }

    TEST_CASE("a label without weight") {
        no_weight<reference>();
        no_weight<portable>();
    }

    TEST_CASE("logits far apart, NaN and ties") {
        extremes<reference>();
        extremes<portable>();
    }

    TEST_CASE("portable equals reference") {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            (one_of_the_pairs<I / 4, I % 4>(), ...);
        }(std::make_index_sequence<24>());
    }
}

} // namespace device_soft_cross_entropy_test
