// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/blocks/softmax_cross_entropy.hpp>
#include <trireme/kernels/reference/softmax_cross_entropy.hpp>

#include <kernels/blocks/rig.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <vector>

namespace device_blocks_softmax_cross_entropy_test {
using namespace trireme;
using namespace blocks_test;

namespace {

template<std::size_t Classes, class T>
void blocks_equal_reference(std::size_t samples) {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(Classes);
    CAPTURE(samples);
    CAPTURE(sizeof(T));
    auto logits = uniform<T>(0, Classes * samples, 4);
    for (std::size_t n = 0; n < samples; n += 2) // ties, at the largest
        if (Classes > 1) logits[n * Classes + Classes / 2] = logits[n * Classes + Classes - 1] = static_cast<T>(5.0f);
    auto const weight = uniform<T>(1, samples);
    std::vector<int> labels(samples), correct(samples, -1), expected_correct(samples, -1);
    random_stream const random(numbers::seed(), random_purpose::user, 2);
    for (std::size_t i = 0; i < samples; ++i) labels[i] = static_cast<int>(random.below(i, Classes));
    labels[0] = static_cast<int>(Classes / 2);
    labels[samples - 1] = static_cast<int>(Classes - 1);

    auto results = unset<T>((Classes + 2) * samples); // dlogits, loss, and the loss evaluated
    T *const dlogits = results.data(), *const loss = dlogits + Classes * samples, *const evaluated = loss + samples;
    CHECK(same_in_every_order(samples, 0, results, [&](rehearsal_kernels const& k) {
        T* const to = results.data();
        softmax_cross_entropy<Classes, 1>(k, logits.data(), labels.data(), weight.data(), to, to + Classes * samples);
        softmax_cross_entropy_loss<Classes, 1>(k, logits.data(), labels.data(), to + (Classes + 1) * samples,
                                               correct.data());
    }));
    for (std::size_t i = 0; i < samples; ++i) CHECK(evaluated[i] == loss[i]);

    auto const wide_logits = wide(logits), wide_weight = wide(weight);
    auto expected = wide(unset<T>((Classes + 2) * samples));
    for (std::size_t n = 0; n < samples; ++n) {
        auto const* const from = wide_logits.data() + n * Classes;
        auto* const to = expected.data();
        softmax_cross_entropy<Classes, 1>(reference{}, from, labels.data() + n, wide_weight.data() + n,
                                          to + n * Classes, to + Classes * samples + n);
        softmax_cross_entropy_loss<Classes, 1>(reference{}, from, labels.data() + n, to + (Classes + 1) * samples + n,
                                               expected_correct.data() + n);
    }
    CHECK(apart(results, expected, Classes + 8) <= 1); // the loss is up to 9 + log(Classes) large
    CHECK(correct == expected_correct);
}

template<class T>
void all_classes() {
    for (std::size_t const samples : std::initializer_list<std::size_t>{1, 2, 5, 33, 130}) {
        blocks_equal_reference<10, T>(samples);
        blocks_equal_reference<101, T>(samples);
    }
    blocks_equal_reference<1, T>(3);
    blocks_equal_reference<2, T>(70);
    blocks_equal_reference<32, T>(3);
    blocks_equal_reference<33, T>(3);
}

/// A NaN wherever it stands, and infinities.
template<std::size_t Classes>
void extremes() {
    float const nan = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t const place : {std::size_t{0}, Classes / 2, Classes - 1}) {
        std::vector<float> logits(Classes, 1.0f), dlogits(Classes);
        logits[place] = nan;
        int const label = static_cast<int>(place);
        float const weight = 1;
        float loss = 0, evaluated = 0;
        int correct = -1, expected_correct = -1;
        rehearse(0, 1, 0, [&](rehearsal_kernels const& k) {
            softmax_cross_entropy<Classes, 1>(k, logits.data(), &label, &weight, dlogits.data(), &loss);
            softmax_cross_entropy_loss<Classes, 1>(k, logits.data(), &label, &evaluated, &correct);
        });
        CHECK(std::isnan(loss));
        CHECK(std::isnan(evaluated));
        CHECK(std::isnan(dlogits[0]));
        softmax_cross_entropy_loss<Classes, 1>(reference{}, logits.data(), &label, &evaluated, &expected_correct);
        CHECK(correct == 1);
        CHECK(expected_correct == 1);
    }
    std::vector<float> logits(Classes, -3e4f), dlogits(Classes, nan); // no overflow, and a loss that is not infinite
    logits[Classes - 1] = 3e4f;
    int const label = 0;
    float const weight = 1;
    float loss = 0;
    rehearse(0, 1, 0, [&](rehearsal_kernels const& k) {
        softmax_cross_entropy<Classes, 1>(k, logits.data(), &label, &weight, dlogits.data(), &loss);
    });
    CHECK(loss == 6e4f);
    CHECK(dlogits[0] == -1);
    CHECK(dlogits[Classes - 1] == 1);
}

} // namespace

TEST_SUITE("kernels/blocks/softmax_cross_entropy") {
    TEST_CASE("blocks equal the reference") {
        all_classes<float>();
        all_classes<double>();
        all_classes<bf16>();
    }

    TEST_CASE("logits far apart, and NaN") {
        extremes<3>();
        extremes<90>();
    }
}

} // namespace device_blocks_softmax_cross_entropy_test
