// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/blocks/soft_cross_entropy.hpp>
#include <trireme/kernels/reference/soft_cross_entropy.hpp>

#include <kernels/blocks/rig.hpp>
#include <kernels/cases.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <vector>

namespace device_blocks_soft_cross_entropy_test {
using namespace trireme;
using namespace blocks_test;
using kernel_cases::some_weights;

namespace {

constexpr int none = std::numeric_limits<int>::min();

template<class Targets, std::size_t Classes, class T>
void blocks_equal_reference(std::size_t samples, int ignored) {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(Classes);
    CAPTURE(samples);
    CAPTURE(sizeof(T));
    CAPTURE(Targets::of_each);
    CAPTURE(ignored);
    auto logits = uniform<T>(0, Classes * samples, 4);
    for (std::size_t n = 0; n < samples; n += 2) // ties, at the largest
        if (Classes > 1) logits[n * Classes + Classes / 2] = logits[n * Classes + Classes - 1] = static_cast<T>(5.0f);
    auto const weight = uniform<T>(1, samples);
    std::vector<int> labels(samples), correct(samples, -1), expected_correct(samples, -1);
    random_stream const random(numbers::seed(), random_purpose::user, 2);
    for (std::size_t i = 0; i < samples; ++i) labels[i] = static_cast<int>(random.below(i, Classes));
    labels[0] = static_cast<int>(Classes / 2);
    labels[samples - 1] = static_cast<int>(Classes - 1);
    for (std::size_t i = 1; i < samples && ignored != none; i += 3) labels[i] = ignored;

    auto results = unset<T>((Classes + 2) * samples); // dlogits, loss, and the loss evaluated
    T *const dlogits = results.data(), *const loss = dlogits + Classes * samples, *const evaluated = loss + samples;
    CHECK(same_in_every_order(samples, 0, results, [&](rehearsal_kernels const& k) {
        T* const to = results.data();
        soft_cross_entropy_gradient<Targets, Classes, 1>(k, logits.data(), labels.data(), weight.data(), to,
                                                         to + Classes * samples);
        soft_cross_entropy<Targets, Classes, 1>(k, logits.data(), labels.data(), to + (Classes + 1) * samples,
                                                correct.data());
    }));
    for (std::size_t i = 0; i < samples; ++i) CHECK(evaluated[i] == loss[i]);

    auto const wide_logits = wide(logits), wide_weight = wide(weight);
    auto expected = wide(unset<T>((Classes + 2) * samples));
    for (std::size_t n = 0; n < samples; ++n) {
        auto const* const from = wide_logits.data() + n * Classes;
        auto* const to = expected.data();
        soft_cross_entropy_gradient<Targets, Classes, 1>(reference{}, from, labels.data() + n, wide_weight.data() + n,
                                                         to + n * Classes, to + Classes * samples + n);
        soft_cross_entropy<Targets, Classes, 1>(reference{}, from, labels.data() + n, to + (Classes + 1) * samples + n,
                                                expected_correct.data() + n);
        if (labels[n] != ignored) continue;
        CHECK(static_cast<float>(loss[n]) == 0);
        for (std::size_t c = 0; c < Classes; ++c) CHECK(static_cast<float>(dlogits[n * Classes + c]) == 0);
    }
    CHECK(apart(results, expected, 4 * Classes + 32) <= 1); // a loss is up to 1.5 * (9 + log(Classes)) large
    CHECK(correct == expected_correct);
}

template<std::size_t Classes, class T>
void all_targets(std::size_t samples) {
    using weights = some_weights<Classes>;
    blocks_equal_reference<soft_targets<Classes, 10, void, none>, Classes, T>(samples, none);
    blocks_equal_reference<soft_targets<Classes, 0, weights, 255>, Classes, T>(samples, 255);
    blocks_equal_reference<soft_targets<Classes, 30, weights, -100>, Classes, T>(samples, -100);
}

template<class T>
void all_classes() {
    for (std::size_t const samples : std::initializer_list<std::size_t>{1, 2, 5, 33, 130}) {
        all_targets<10, T>(samples);
        all_targets<101, T>(samples);
    }
    all_targets<1, T>(3);
    all_targets<2, T>(70);
    all_targets<32, T>(3);
    all_targets<33, T>(3);
}

/// A NaN wherever it stands, infinities, and both in a sample that is ignored.
template<std::size_t Classes>
void extremes() {
    using smooth = soft_targets<Classes, 10, void, -7>;
    float const nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    float const weight = 1;
    float loss = 0, evaluated = 0;
    int correct = -1, expected_correct = -1;
    std::vector<float> logits, dlogits;
    auto const rehearsed = [&](int label) {
        rehearse(0, 1, 0, [&](rehearsal_kernels const& k) {
            soft_cross_entropy_gradient<smooth, Classes, 1>(k, logits.data(), &label, &weight, dlogits.data(), &loss);
            soft_cross_entropy<smooth, Classes, 1>(k, logits.data(), &label, &evaluated, &correct);
        });
    };
    for (std::size_t const place : {std::size_t{0}, Classes / 2, Classes - 1}) {
        logits.assign(Classes, 1.0f);
        dlogits.assign(Classes, 0);
        logits[place] = nan;
        int const label = static_cast<int>(place);
        rehearsed(label);
        CHECK((std::isnan(loss) && std::isnan(evaluated) && std::isnan(dlogits[0])));
        soft_cross_entropy<smooth, Classes, 1>(reference{}, logits.data(), &label, &evaluated, &expected_correct);
        CHECK((correct == 1 && expected_correct == 1));
        for (float const bad : {nan, infinity}) {
            logits[place] = bad;
            dlogits.assign(Classes, nan);
            rehearsed(-7);
            CHECK((loss == 0 && evaluated == 0 && correct == 0));
            CHECK(dlogits == std::vector<float>(Classes, 0.0f));
        }
    }
    logits.assign(Classes, -3e4f); // no overflow, and a loss that is not infinite
    dlogits.assign(Classes, nan);
    logits[Classes - 1] = 3e4f;
    rehearsed(0);
    double const each = 0.1 / static_cast<double>(Classes);
    CHECK(loss == doctest::Approx((1 - each) * 6e4).epsilon(1e-5));
    CHECK(dlogits[0] == doctest::Approx(-0.9 - each).epsilon(1e-5));
    CHECK(dlogits[Classes - 1] == doctest::Approx(1 - each).epsilon(1e-5));
}

} // namespace

TEST_SUITE("kernels/blocks/soft_cross_entropy") {
    TEST_CASE("blocks equal the reference") {
        all_classes<float>();
        all_classes<double>();
        all_classes<bf16>();
    }

    TEST_CASE("logits far apart, NaN, and samples that are ignored") {
        extremes<3>();
        extremes<90>();
    }
}

} // namespace device_blocks_soft_cross_entropy_test
