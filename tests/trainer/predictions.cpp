// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <trireme/data/tokens.hpp>
#include <trireme/reference.hpp>

#include <doctest/doctest.h>
#include <support/golden.hpp>
#include <support/hash.hpp>
#include <support/messages.hpp>
#include <support/predicting.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace trainer_predictions_test {
using namespace trireme;
using namespace test_predicting;
using test_networks::every_layer;
using test_networks::small;
using test_support::refusal;
using test_support::says;

namespace {

/// Outputs of a network of one layer, for PyTorch's samples and weights of the case `name`.
template<class Layer, class Input>
void predicts_as_torch(std::string const& name) {
    CAPTURE(name);
    using net = network<Input, Layer>;
    trireme_golden::file const layers("layers");
    auto const number = static_cast<std::uint64_t>(layers.integers(name + ".case_number").front());
    auto const x = trireme_golden::tensor<double>(100 + number, layers.numbers(name + ".dx").size(), 1.0);
    auto const wanted = layers.numbers(name + ".y");
    model<net, precision<f64>, on<mesh<host, dp<2>>>> m;
    m.load_parameters(trireme_golden::parameters<net, double>());
    auto const said = m.predict(samples_in_memory(x, Input::extents::shape));
    REQUIRE(said.values().size() == wanted.size());
    CHECK(test_support::apart(values_of(said), wanted) < 1e-12);
}

} // namespace

TEST_SUITE("trainer/predictions") {
    TEST_CASE("outputs equal PyTorch's") {
        predicts_as_torch<linear<5>, input<7>>("linear");
        predicts_as_torch<conv2d<4, kernel<3>, stride<2>, padding<1>>, input<3, 7, 6>>("conv2d_k3_p1_s2");
        predicts_as_torch<max_pool2d<3, stride<2>>, input<2, 7, 6>>("max_pool2d_k3_s2");
    }

    TEST_CASE("classes and probabilities, by hand") {
        double const third = std::log(3.0), nan = std::numeric_limits<double>::quiet_NaN();
        predictions<double> const said({0, third, 1000 + third, 1000, 2, 2, 1, nan}, make_shape(2), 2);
        CHECK(said.size() == 4);
        CHECK((said.all_classes() == std::vector<std::size_t>{1, 0, 0, 1}));
        CHECK(said.class_of(2) == 0); // the first of equal ones
        auto const p = said.probabilities();
        CHECK(p[0] == doctest::Approx(0.25).epsilon(1e-14));
        CHECK(p[1] == doctest::Approx(0.75).epsilon(1e-14));
        CHECK(p[2] == doctest::Approx(0.75).epsilon(1e-12));
        CHECK(p[4] == 0.5);
        CHECK(said[1][1] == 1000);
    }

    TEST_CASE("logits of one label and of several, by hand") {
        double const third = std::log(3.0), nan = std::numeric_limits<double>::quiet_NaN();
        predictions<double> const one({third, -third, 0, 900, -900, nan}, make_shape(1), {.logistic = true});
        CHECK(one.classes() == 2);
        CHECK((one.all_classes() == std::vector<std::size_t>{1, 0, 0, 1, 0, 0}));
        CHECK(one.class_of(3) == 1);
        CHECK(says(refusal([&] { one.class_of(6); }), {"prediction 6 of 6"}));
        auto const p = one.probabilities();
        REQUIRE(p.size() == 6);
        CHECK(p[0] == doctest::Approx(0.75).epsilon(1e-14));
        CHECK(p[1] == doctest::Approx(0.25).epsilon(1e-14));
        CHECK((p[2] == 0.5 && p[3] == 1 && p[4] == 0 && std::isnan(p[5])));

        predictions<double> const several({third, -third, 0, 1, 2, 3}, make_shape(3), {.logistic = true});
        CHECK(several.classes() == 0);
        CHECK(several.probabilities()[1] == doctest::Approx(0.25).epsilon(1e-14));
        for (auto const& said : {refusal([&] { several.class_of(0); }), refusal([&] { several.all_classes(); })})
            CHECK(says(said, {"3 logits, each of a label by itself", "read probabilities()"}));
    }

    TEST_CASE("logits are right or wrong, on any number of replicas and stages") {
        logits_are_right_or_wrong<host, 1>();
        logits_are_right_or_wrong<host, 3>();
    }

    TEST_CASE("values have no accuracy, and epochs are not compared by it") {
        labelled_plane<1> const plane(40);
        auto const samples = plane.samples();
        for (int const devices : {1, 2}) {
            trainer<network<input<2>, linear<1>>, mean_squared_error, sgd, on<mesh<host, dp<dynamic>>>> t(
                {.batch = 40}, {.devices = devices});
            CHECK(std::isnan(t.evaluate(samples).accuracy));
            auto const epoch = t.train(training_set{samples, samples}, {.epochs = 1});
            CHECK((epoch.of_values && std::isnan(epoch.test.accuracy)));
            CHECK(says(refusal([&] {
                           static_cast<void>(t.fit(training_set{samples, samples}, {.best_by = test_figure::accuracy}));
                       }),
                       {"best_by = test_figure::accuracy", "no accuracy", "test_figure::loss"}));
        }
    }

    TEST_CASE_TEMPLATE("outputs are those that are evaluated", Kernels, portable, reference) {
        trainer<small, cross_entropy, sgd, kernels<Kernels>, precision<f64>> t{{.batch = 32}};
        t.step(made_up(32));
        for (std::size_t const n : {1u, 5u, 16u, 37u}) agree(t, made_up(n, 5), 1e-12);
    }

    TEST_CASE("they have one device's bits on any number of replicas and stages, from models, too") {
        have_one_devices_bits<host, every_layer>(1e-5);
        have_one_devices_bits<host, test_networks::lenet>(1e-5);
    }

    TEST_CASE("images stay images: [channel][row][column]") {
        using net = network<input<2, 3, 4>, relu>;
        std::vector<float> numbers(5 * 24);
        for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 7) - 2;
        model<net> m;
        m.load_parameters({});
        auto const said = m.predict(samples_in_memory(numbers, make_shape(2, 3, 4)));
        CHECK(said.shape() == make_shape(2, 3, 4));
        REQUIRE(said.size() == 5);
        for (std::size_t i = 0; i < numbers.size(); ++i) CHECK(said.values()[i] == std::max(numbers[i], 0.0f));
    }

    TEST_CASE("what cannot be predicted is refused, and the trainer works on") {
        std::vector<float> const numbers(12, 1.0f), none;
        using values = network<input<6>, linear<3>>;
        trainer<values, mean_squared_error, sgd> t{{.batch = 2}};
        samples_in_memory const asked(numbers, make_shape(6));
        CHECK(t.predict(asked).values().size() == 6);
        CHECK(
            says(refusal([&] { t.predict(asked).all_classes(); }), {"3 values", "none of them the score of a class"}));
        CHECK(says(refusal([&] { t.predict(asked).probabilities(); }), {"a loss for classes"}));
        CHECK(says(refusal([&] { t.predict(samples_in_memory(numbers, make_shape(4))); }),
                   {"each sample is 4, 4 values", "the network's input has 6"}));
        CHECK(says(refusal([&] { t.predict(sample_set{}); }), {"the data set is empty", "a prediction"}));
        CHECK(says(refusal([&] { t.step(asked); }), {"no targets"}));
        CHECK(says(refusal([&] { samples_in_memory(numbers, make_shape(5)); }), {"12 numbers", "5 each"}));
        CHECK(says(refusal([&] { samples_in_memory(none, make_shape(5)); }), {"0 numbers"}));
        CHECK(t.predict(asked).size() == 2);
    }

    TEST_CASE("windows of another length than a network's context are told, and so are tokens that it lacks") {
        using net = network<input<16>, embedding<9, 4>, learned_positions, linear<9>>;
        std::vector<std::uint16_t> tokens(65, 1);
        trainer<net, cross_entropy, sgd> t{{.batch = 2}};
        CHECK(t.step(token_windows(tokens, 16, 9)).samples == 4);
        for (auto const& text : {refusal([&] { t.step(token_windows(tokens, 32, 9)); }), refusal([&] {
                                     t.predict(samples_in_memory(std::span(tokens).first(64), make_shape(32)));
                                 })})
            CHECK(says(text, {"a window of 32 tokens", "context is 16", "make windows of 16 tokens", "input<32>",
                              ".context = 32"}));
        CHECK(says(refusal([&] { t.evaluate(token_windows(tokens, 8, 9)); }),
                   {"a window of 8 tokens", "make windows of 16 tokens", "input<8>"}));
        tokens[20] = 9;
        CHECK(says(refusal([&] { t.step(token_windows(tokens, 16, 10)); }),
                   {"token 4 of sample 1 is 9", "has 9 tokens", "embedding<10, width>"}));
        CHECK(t.steps() == 1);
    }
}

} // namespace trainer_predictions_test
