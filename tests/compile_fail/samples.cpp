// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Samples: what a trainer learns from.
// On the page: samples
#include "prelude.hpp"
#include <trireme/readers.hpp>

namespace tri0099 {
// Numbers alone do not say where one sample ends, and what is to be learnt of it.
using net = network<input<4>, linear<3>>;
inline double learn(std::vector<float> const& numbers, [[maybe_unused]] std::vector<int> const& labels) {
    trainer<net, cross_entropy, sgd> t;
#if defined(NUMBERS_ALONE)
    // NUMBERS_ALONE: TRI0099 | samples_in_memory | std::vector<float
    // errors <= 1
    return t.step(numbers).loss;
#elif defined(TESTED_ON_NUMBERS)
    // TESTED_ON_NUMBERS: TRI0099 | samples_in_memory | std::vector<float
    // errors <= 1
    return t.evaluate(numbers).loss;
#elif defined(EVALUATED_ON_BOTH_PARTS)
    // EVALUATED_ON_BOTH_PARTS: TRI0099 | of training data pass a part, as data.test | training_set<
    // errors <= 1
    samples_in_memory const learnt(numbers, make_shape(4), labels, 3);
    return t.evaluate(training_set{learnt, learnt}).loss;
#else
    return t.step(samples_in_memory(numbers, make_shape(4), labels, 3)).loss;
#endif
}
} // namespace tri0099

namespace tri0148 {
// A network computes with numbers that it converts from the types of files and of other libraries. A bool is none of
// them: `std::vector<bool>` has no array of its elements. A class is a whole number, and a `float` need not be one.
inline samples_in_memory made(std::vector<float> const& numbers, [[maybe_unused]] std::vector<int> const& labels,
                              [[maybe_unused]] std::vector<bool> const& clicked) {
#if defined(LABELS_OF_BOOL)
    // LABELS_OF_BOOL: TRI0148 | gets<float> | gets<bool>
    // errors <= 1
    return samples_in_memory(numbers, make_shape(4), clicked, 2);
#elif defined(INPUTS_OF_BOOL)
    // INPUTS_OF_BOOL: TRI0148 | gets<bool>
    // errors <= 1
    return samples_in_memory(clicked, make_shape(4));
#elif defined(LABELS_OF_FLOAT)
    // LABELS_OF_FLOAT: TRI0148 | gets<float>
    // errors <= 1
    return samples_in_memory(numbers, make_shape(4), numbers, 3);
#elif defined(LONG_DOUBLE)
    // LONG_DOUBLE: TRI0148 | gets<long double>
    // errors <= 1
    std::vector<long double> const exact(numbers.begin(), numbers.end());
    return samples_in_memory(exact, make_shape(4), labels, 3);
#elif defined(POINTER)
    // POINTER: TRI0148 | std::span(pointer, count) | gets<const float
    // errors <= 1
    return samples_in_memory(numbers.data(), make_shape(4), labels, 3);
#elif defined(NESTED)
    // NESTED: TRI0148 | std::vector<float
    // errors <= 1
    std::vector<std::vector<float>> const by_sample{numbers};
    return samples_in_memory(by_sample, make_shape(4), labels, 3);
#elif defined(OWNED)
    // OWNED: TRI0148 | gets<float> | gets<bool>
    // errors <= 1
    owned_samples const own(numbers, make_shape(4), clicked, 2);
    return samples_in_memory(numbers, make_shape(own.size()));
#elif defined(OWNED_INPUTS)
    // OWNED_INPUTS: TRI0148 | gets<bool>
    // errors <= 1
    owned_samples const own(clicked, make_shape(4), labels, 2);
    return samples_in_memory(numbers, make_shape(own.size()));
#else
    std::vector<std::uint8_t> const zero_or_one(clicked.begin(), clicked.end());
    return samples_in_memory(numbers, make_shape(4), zero_or_one, 2); // as long as zero_or_one is there
#endif
}
} // namespace tri0148

namespace tri0156 {
// Samples in memory are a view: nothing is copied. A vector that a function returns, or that is moved, has no name, and
// its numbers are gone when the call is over.
inline std::size_t trained([[maybe_unused]] std::vector<float> numbers, [[maybe_unused]] std::vector<int> labels) {
#if defined(INPUTS_WITHOUT_A_NAME)
    // INPUTS_WITHOUT_A_NAME: TRI0156 | give them to owned_samples | gets<std::vector<float
    // errors <= 1
    samples_in_memory const samples(std::vector<float>(64), make_shape(4), labels, 3);
#elif defined(LABELS_WITHOUT_A_NAME)
    // LABELS_WITHOUT_A_NAME: TRI0156 | gets<std::vector<int
    // errors <= 1
    samples_in_memory const samples(numbers, {4}, std::move(labels), {1}, 3);
#elif defined(PREDICTED_WITHOUT_A_NAME)
    // PREDICTED_WITHOUT_A_NAME: TRI0156
    // errors <= 1
    samples_in_memory const samples(std::move(numbers), {4});
#elif defined(TOKENS_WITHOUT_A_NAME)
    // TOKENS_WITHOUT_A_NAME: TRI0156
    // errors <= 1
    token_windows const samples(std::vector<int>(64), 4, 3);
#else
    owned_samples const samples(std::move(numbers), make_shape(4), std::move(labels), 3);
#endif
    return samples.size();
}
} // namespace tri0156

namespace shapes_in_braces {
// Braces have the extents of one sample.
inline samples_in_memory made(std::vector<float> const& numbers, std::vector<int> const& labels) {
#if defined(FIVE_EXTENTS)
    // FIVE_EXTENTS: TRI0001 | dimensions_rule<5
    // errors <= 1
    return samples_in_memory(numbers, {2, 3, 4, 5, 6}, labels, 3);
#elif defined(NEGATIVE_EXTENT)
    // NEGATIVE_EXTENT: -1 | narrow
    // errors <= 1
    return samples_in_memory(numbers, {-1}, labels, 3);
#elif defined(NEGATIVE_WIDTH)
    // NEGATIVE_WIDTH: -28 | narrow
    // errors <= 1
    return samples_in_memory(numbers, {1, 28, -28}, labels, 3);
#elif defined(FLOATING_EXTENT)
    // FLOATING_EXTENT: 2.5 | double
    return samples_in_memory(numbers, {2.5}, labels, 3);
#else
    return samples_in_memory(numbers, {4}, labels, 3);
#endif
}
} // namespace shapes_in_braces

namespace tri0149 {
// An epoch learns from one set of samples, and the test behind it is of another. Both go in one object. The options of
// `fit` and `train` have no default: one epoch is seldom meant.
inline double learn(my_trainer<>& t, labelled_images const& learnt, [[maybe_unused]] labelled_images const& tested) {
#if defined(ONE_SET)
    // ONE_SET: TRI0149 | training_set{learnt} | gets< | labelled_images
    // errors <= 1
    return t.train(learnt, {.epochs = 10}).loss;
#elif defined(ONE_SET_WITHOUT_OPTIONS)
    // ONE_SET_WITHOUT_OPTIONS: TRI0149 | labelled_images
    // errors <= 1
    return t.train(learnt).loss;
#elif defined(TWO_ARGUMENTS)
    // TWO_ARGUMENTS: TRI0149 | t.train(training_set{learnt, tested}, {.epochs = 10}) | labelled_images
    // errors <= 1
    return t.train(learnt, tested, {.epochs = 10}).loss;
#elif defined(TWO_ARGUMENTS_WITHOUT_OPTIONS)
    // TWO_ARGUMENTS_WITHOUT_OPTIONS: TRI0149 | labelled_images
    // errors <= 1
    return t.train(learnt, tested).loss;
#elif defined(WITHOUT_OPTIONS)
    // WITHOUT_OPTIONS: TRI0149 | training_set<
    // errors <= 1
    return t.train(training_set{learnt, tested}).loss;
#elif defined(NUMBER_FOR_OPTIONS)
    // NUMBER_FOR_OPTIONS: TRI0149 | training_set< | gets<int>
    // errors <= 1
    return t.train(training_set{learnt, tested}, 10).loss;
#elif defined(TRAINED_ON_NUMBERS)
    // TRAINED_ON_NUMBERS: TRI0149 | std::vector<float
    // errors <= 1
    return t.train(std::vector<float>(learnt.size()), {.epochs = 10}).loss;
#elif defined(OBSERVED_ON_ONE_SET)
    // OBSERVED_ON_ONE_SET: TRI0149 | labelled_images
    // errors <= 1
    return t.train(learnt, {.epochs = 10}, [&](epoch_report const&) { t.plan(); }).loss;
#elif defined(FIT_ON_ONE_SET)
    // FIT_ON_ONE_SET: TRI0149 | labelled_images
    // errors <= 1
    for (auto const& epoch : t.fit(learnt, {.epochs = 10})) std::cout << epoch << '\n';
    return 0;
#elif defined(FIT_ON_TWO_ARGUMENTS)
    // FIT_ON_TWO_ARGUMENTS: TRI0149 | labelled_images
    // errors <= 1
    for (auto const& epoch : t.fit(learnt, tested, {.epochs = 10})) std::cout << epoch << '\n';
    return 0;
#else
    return t.train(training_set{learnt, tested}, {.epochs = 10}).loss;
#endif
}
} // namespace tri0149
