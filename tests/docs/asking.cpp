// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The code of the guide on asking a trained network, and on losses that are not finite; see guide.cpp.

#include <trireme/weights.hpp>

#include <doctest/doctest.h>
#include <support/files.hpp>
#include <support/networks.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace docs_asking_test {
using namespace trireme;
using test_networks::lenet;
using test_networks::made_up;

TEST_CASE("asking a trained network") {
    auto const images = made_up(64);
    trainer<lenet, cross_entropy, adam> t{{.batch = 32}};
    for (int i = 0; i < 5; ++i) t.step(images.take(0, 32));
    // [predict]
    auto const said = t.predict(images);
    std::size_t const first = said.class_of(0);        // the class with the largest score
    float const score = said[0][first];                // the outputs of one sample
    std::vector<float> const p = said.probabilities(); // softmax, [sample][class]
    double const among_three = top_k_accuracy(said, images, 3);
    confusion_matrix const matrix(said, images); // matrix(label, taken for)
    // [/predict]
    CHECK(score == said.values()[first]);
    CHECK(p.size() == 640);
    CHECK(among_three >= matrix.accuracy());
    CHECK(matrix.accuracy() == t.evaluate(images).accuracy);

    files::folder const folder;
    auto const path = folder.path("weights");
    save_weights(t, path);
    std::span<std::uint8_t const> const pixels = images.pixels();
    // [model]
    using lenet_model = model<lenet, on<mesh<host, dp<2>>>>;
    static_assert(lenet_model::plan(batch{256}).memory().gradients == 0);
    lenet_model m;
    load_weights(m, path); // or m.load_parameters(t.gather_parameters()), and with batch_norm load_buffers likewise
    auto const answer = m.predict(samples_in_memory(pixels, make_shape(1, 28, 28)).scaled(1.0 / 255)); // as in training
    // [/model]
    CHECK(answer.size() == 64);
    CHECK(answer.all_classes() == said.all_classes());
}

TEST_CASE("questions with two answers") {
    std::vector<float> points, is_inside;
    random_stream const random(1, random_purpose::user);
    for (std::size_t i = 0; i < 200; ++i) {
        auto const x = static_cast<float>(2 * random.uniform(2 * i) - 1);
        auto const y = static_cast<float>(2 * random.uniform(2 * i + 1) - 1);
        points.insert(points.end(), {x, y});
        is_inside.push_back(x * x + y * y < 0.5f ? 1 : 0);
    }
    // [yes_or_no]
    samples_in_memory const measured(points, make_shape(2), is_inside, make_shape(1)); // targets: 0 or 1
    using yes_or_no = network<input<2>, linear<16>, relu, linear<1>>;
    trainer<yes_or_no, binary_cross_entropy, adam> t{{.learning_rate = 0.02f, .batch = 50}};
    t.train(training_set{measured, measured}, {.epochs = 40});
    auto const said = t.predict(measured);
    std::vector<float> const inside = said.probabilities();      // sigmoid, one for each sample
    std::vector<std::size_t> const answers = said.all_classes(); // 1 where the probability is above 1/2
    confusion_matrix const two_by_two(said, measured);
    // [/yes_or_no]
    for (std::size_t i = 0; i < answers.size(); ++i) CHECK((answers[i] == 1) == (inside[i] > 0.5f));
    auto const accuracy = t.evaluate(measured).accuracy;
    CHECK(accuracy > 0.7);
    CHECK(two_by_two.accuracy() == accuracy);

    model<yes_or_no> m; // weights from elsewhere
    m.load_parameters(t.gather_parameters());
    CHECK(m.predict<binary_cross_entropy>(measured).all_classes() == answers);
}

TEST_CASE("a loss that is not finite") {
    std::vector<float> const inputs(40, 0.5f), heights(20, 1.0f);
    auto broken = heights;
    broken[7] = std::numeric_limits<float>::infinity();
    samples_in_memory const good(inputs, make_shape(2), heights, make_shape(1));
    samples_in_memory const damaged(inputs, make_shape(2), broken, make_shape(1));
    trainer<network<input<2>, linear<1>>, mean_squared_error, sgd, on<mesh<host, dp<2>>>> t{{.batch = 20}};
    auto const before = t.gather_parameters();
    // [diverged]
    try {
        t.step(damaged); // a target in it is infinite
    } catch (divergence_error const& e) {
        if (!e.intact()) throw; // the weights are not those before e.step(): a new trainer is needed
        t.set_learning_rate(0.01f);
    }
    t.step(good);
    // [/diverged]
    CHECK(t.current_options().learning_rate == 0.01f);
    CHECK(t.gather_parameters() != before);
}

} // namespace docs_asking_test
