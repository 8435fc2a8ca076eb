// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/trainer/accuracy.hpp>

#include <trireme/data/samples_in_memory.hpp>

#include <doctest/doctest.h>
#include <support/messages.hpp>

#include <cstdint>
#include <limits>
#include <vector>

namespace trainer_accuracy_test {
using namespace trireme;
using test_support::refusal;
using test_support::says;

namespace {

std::vector<float> const numbers(6, 0.0f);
float const nan = std::numeric_limits<float>::quiet_NaN();
// of the labels the scores' places are 1, 2, 3, 2 (a tie), 1 (NaN), and of one that is left out
predictions<float> const said({3, 2, 1, /**/ 3, 2, 1, /**/ 3, 2, 1, /**/ 5, 5, 1, /**/ 9, 9, nan, /**/ 1, 2, 3},
                              make_shape(3), 3);
std::vector<std::int16_t> const labels{0, 1, 2, 1, 2, -7};
samples_in_memory const samples(numbers, make_shape(1), labels, 3, -7);

} // namespace

TEST_SUITE("trainer/accuracy") {
    TEST_CASE("the label is among the k largest scores") {
        CHECK(top_k_accuracy(said, samples, 1) == 2.0 / 5);
        CHECK(top_k_accuracy(said, samples, 2) == 4.0 / 5);
        CHECK(top_k_accuracy(said, samples, 3) == 1);
        std::vector<std::int16_t> const ignored(6, -7);
        CHECK(top_k_accuracy(said, samples_in_memory(numbers, make_shape(1), ignored, 3, -7), 1) == 0);
    }

    TEST_CASE("the matrix counts each label and what it was taken for") {
        confusion_matrix const m(said, samples);
        std::vector<std::size_t> const wanted{1, 0, 0, 2, 0, 0, 1, 0, 1};
        CHECK((std::vector(m.counts().begin(), m.counts().end()) == wanted));
        CHECK(m(1, 0) == 2);
        CHECK(m.accuracy() == 2.0 / 5);
        CHECK(m.recall(2) == 0.5);
        CHECK(m.recall(1) == 0);
        CHECK(m.precision(0) == 0.25);
        CHECK(m.precision(1) == 0); // of none
        CHECK(m.precision(2) == 1);
    }

    TEST_CASE("tokens have a label each") {
        predictions<float> const of_tokens(
            {3, 2, 1, /**/ 3, 2, 1, /**/ 3, 2, 1, /**/ 5, 5, 1, /**/ 9, 9, nan, /**/ 1, 2, 3}, make_shape(3, 3), 3);
        std::vector<float> const two(2, 0.0f);
        samples_in_memory const of_two(two, make_shape(1), labels, make_shape(3), 3, -7);
        CHECK(top_k_accuracy(of_tokens, of_two, 1) == 2.0 / 5);
        CHECK(top_k_accuracy(of_tokens, of_two, 2) == 4.0 / 5);
        confusion_matrix const m(of_tokens, of_two), of_samples(said, samples);
        CHECK((std::vector(m.counts().begin(), m.counts().end()) ==
               std::vector(of_samples.counts().begin(), of_samples.counts().end())));
        std::vector<int> const one_each{0, 1};
        CHECK(says(refusal([&] { confusion_matrix(of_tokens, samples_in_memory(two, make_shape(1), one_each, 3)); }),
                   {"predictions of 3 x 3 values", "scores of 3 labels", "each sample has 1"}));
    }

    TEST_CASE("one logit is compared with labels, and with values above 1/2 or not") {
        predictions<float> const logits({2, 0.5f, -1, 0, nan, -3}, make_shape(1), {.logistic = true});
        std::vector<float> const targets{1, 0, 0, 1, 0.25f, 0.75f};
        std::vector<std::int8_t> const same{1, 0, 0, 1, 0, 1};
        for (samples_in_memory const& given : {samples_in_memory(numbers, make_shape(1), targets, make_shape(1)),
                                               samples_in_memory(numbers, make_shape(1), same, 2)}) {
            confusion_matrix const m(logits, given);
            CHECK((std::vector(m.counts().begin(), m.counts().end()) == std::vector<std::size_t>{2, 1, 2, 1}));
            CHECK(m.accuracy() == 0.5);
            CHECK(m.recall(1) == 1.0 / 3);
            CHECK(top_k_accuracy(logits, given, 1) == 0.5);
            CHECK(top_k_accuracy(logits, given, 2) == 1);
        }
        std::vector<std::int16_t> const with_others{1, -7, 0, 1, -7, 1};
        CHECK(top_k_accuracy(logits, samples_in_memory(numbers, make_shape(1), with_others, 2, -7), 1) == 0.5);
        CHECK(says(refusal([&] { top_k_accuracy(logits, samples, 1); }), {"2 classes", "labels of 3"}));
        CHECK(says(refusal([&] { confusion_matrix(logits, samples_in_memory(numbers, make_shape(1))); }),
                   {"these samples have none"}));
        std::vector<float> const pairs(12, 1.0f);
        samples_in_memory const of_pairs(numbers, make_shape(1), pairs, make_shape(2));
        CHECK(says(refusal([&] { confusion_matrix(logits, of_pairs); }), {"scores of 1 labels", "each sample has 2"}));
        predictions<float> const several(pairs, make_shape(2), {.logistic = true});
        CHECK(says(refusal([&] { confusion_matrix(several, of_pairs); }), {"each of a label by itself"}));
        CHECK(says(refusal([&] { top_k_accuracy(several, of_pairs, 1); }), {"each of a label by itself"}));
    }

    TEST_CASE("what does not fit is refused with both sizes") {
        std::vector<int> const few{0, 1}, many{0, 1, 2, 3, 4, 4};
        std::vector<float> const two(2, 0.0f);
        CHECK(says(refusal([&] { top_k_accuracy(said, samples_in_memory(two, make_shape(1), few, 3), 1); }),
                   {"predictions of 6 samples", "labels of 2"}));
        CHECK(says(refusal([&] { confusion_matrix(said, samples_in_memory(numbers, make_shape(1), many, 5)); }),
                   {"predictions of 3 classes", "labels of 5"}));
        CHECK(says(refusal([&] { confusion_matrix(said, samples_in_memory(numbers, make_shape(1))); }),
                   {"these samples have none"}));
        CHECK(says(refusal([&] { top_k_accuracy(said, samples, 0); }), {"k = 0", "at most the 3 classes"}));
        CHECK(says(refusal([&] { top_k_accuracy(said, samples, 4); }), {"k = 4"}));
    }
}

} // namespace trainer_accuracy_test
