// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/readers.hpp>
#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <support/left_out.hpp>
#include <support/sanitizers.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace trainer_tokens_test {
using namespace trireme;

namespace {

constexpr std::size_t context = 16, width = 24;

using block =
    sequential<residual<sequential<layer_norm, linear<3 * width>, attention<heads<3>, causal>, linear<width>>>,
               residual<sequential<layer_norm, linear<4 * width>, gelu_tanh, linear<width>>>>;
using net = network<input<context>, embedding<byte_vocabulary, width>, learned_positions, repeat<2, block>, layer_norm,
                    linear<byte_vocabulary>>;

template<class... Policies>
using gpt = trainer<net, cross_entropy, adamw, Policies...>;

std::string const text = [] {
    std::string all;
    for (int i = 0; i < 60; ++i) all += "the quick brown fox jumps over the lazy dog; ";
    return all;
}();

template<class Trainer>
std::vector<double> losses_of(Trainer& t, int steps) {
    auto const samples = text_windows(text, context);
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i)
        losses.push_back(t.step(samples.take(static_cast<std::size_t>(i) * 12 % 96, 12)).loss);
    return losses;
}

} // namespace

TEST_SUITE("trainer/tokens") {
    TEST_CASE("a transformer learns a sentence by heart") {
        if (test_support::left_out(sanitized, "120 steps take too long under a sanitizer")) return;
        gpt<> t{{.learning_rate = 3e-3f, .batch = 12}};
        auto const losses = losses_of(t, 120);
        CHECK(losses.front() == doctest::Approx(std::log(256.0)).epsilon(0.1));
        CHECK(losses.back() < 0.4);
        auto const samples = text_windows(text, context);
        auto const score = t.evaluate(samples);
        CHECK(score.accuracy > 0.85); // of the tokens
        CHECK(score.accuracy <= 1);
    }

    TEST_CASE("any number of devices: the losses of one, and its bits under reproducible") {
        auto const run = []<class... P>(pack<P...>) {
            gpt<P...> t{{.learning_rate = 3e-3f, .batch = 12}};
            auto const losses = losses_of(t, 6);
            auto const weights = t.gather_parameters();
            return std::pair(losses, weights);
        };
        auto const alone = run(pack<>{});
        auto const close = [&](auto const& other) {
            for (std::size_t i = 0; i < alone.first.size(); ++i)
                CHECK(other.first[i] == doctest::Approx(alone.first[i]).epsilon(1e-4));
        };
        close(run(pack<on<mesh<host, dp<2>>>>{}));
        close(run(pack<on<mesh<host, dp<3>>>, reduce_by<ring>>{}));
        close(run(pack<on<mesh<host, dp<2>>>, hold_weights<once>>{}));
        close(run(pack<accumulate<3>>{}));
        close(run(pack<recompute<all>>{}));
        close(run(pack<on<mesh<host, pp<3>>>, pipeline<zero_bubble_h1, 4>>{}));

        using same = reproducible<fixed_tree, 4>;
        auto const bits = run(pack<same>{});
        close(bits);
        CHECK(run(pack<same, on<mesh<host, dp<2>>>>{}) == bits);
        CHECK(run(pack<same, on<mesh<host, dp<3>>>>{}) == bits);
        CHECK(run(pack<same, on<mesh<host, pp<2>>>, pipeline<one_f_one_b, 4>>{}) == bits);
        CHECK(run(pack<same, on<mesh<host, dp<2>, pp<2>>>, pipeline<gpipe, 2>, recompute<all>>{}) == bits);
    }

    TEST_CASE("an epoch of fit draws where its windows begin; its batches are those of shuffled_batches") {
        auto const samples = text_windows(text, context, drawn_each_epoch);
        auto const options = gpt<>::options{.learning_rate = 3e-3f, .batch = samples.size(), .seed = 7};
        gpt<> by_epochs(options), by_steps(options), fixed(options);
        shuffled_batches batches(samples, samples.size(), 7), of_fixed(text_windows(text, context), samples.size(), 7);
        for (auto const& epoch : by_epochs.fit(training_set{samples, samples.take(0, 1)}, {.epochs = 2})) {
            CHECK(epoch.loss == by_steps.step(batches.at(by_steps.steps())).loss);
            CHECK(epoch.loss != fixed.step(of_fixed.at(fixed.steps())).loss);
        }
    }

    TEST_CASE("an end that is tied to the embedding: one device's bits in replicas and stages, clipped and in parts") {
        using tied_net = trireme::gpt<gpt_sizes{
            .layers = 2, .width = width, .heads = 3, .context = context, .vocabulary = byte_vocabulary, .tied = true}>;
        using same = reproducible<fixed_tree, 4>;
        auto const run = []<class... P>(pack<P...>) {
            trainer<tied_net, cross_entropy, adamw, clip_norm, P...> t{
                {.learning_rate = 3e-3f, .max_norm = 0.5f, .batch = 12}};
            auto const losses = losses_of(t, 6);
            auto const samples = text_windows(text, context).take(0, 5);
            return std::tuple(losses, t.gather_parameters(), t.evaluate(samples).loss);
        };
        auto const bits = run(pack<same>{});
        CHECK(std::get<1>(bits).size() == tied_net::parameters);
        CHECK(std::get<0>(bits).back() < std::get<0>(bits).front());
        CHECK(run(pack<same, on<mesh<host, dp<2>>>>{}) == bits);
        CHECK(run(pack<same, on<mesh<host, dp<3>>>>{}) == bits);
        CHECK(run(pack<same, on<mesh<host, pp<2>>>, pipeline<one_f_one_b, 4>>{}) == bits);
        CHECK(run(pack<same, on<mesh<host, pp<3>>>, pipeline<gpipe, 4>>{}) == bits);
        CHECK(run(pack<same, on<mesh<host, dp<2>, pp<2>>>, pipeline<gpipe, 2>, recompute<all>>{}) == bits);
        auto const close = run(pack<accumulate<3>>{});
        for (std::size_t i = 0; i < std::get<0>(bits).size(); ++i)
            CHECK(std::get<0>(close)[i] == doctest::Approx(std::get<0>(bits)[i]).epsilon(1e-4));
    }

    TEST_CASE("dropout inside attention: the same weights on any number of devices, others in every step, and none "
              "outside of training") {
        using block = residual<sequential<layer_norm, linear<3 * width>,
                                          attention<heads<3>, causal, dropout<percent<20>>>, linear<width>>>;
        using dropping = network<input<context>, embedding<byte_vocabulary, width>, learned_positions, block, block,
                                 layer_norm, linear<byte_vocabulary>>;
        auto const run = []<class... P>(pack<P...>) {
            trainer<dropping, cross_entropy, adamw, reproducible<fixed_tree, 6>, P...> t{
                {.learning_rate = 3e-3f, .batch = 12}};
            auto const losses = losses_of(t, 4);
            return std::pair(losses, t.gather_parameters());
        };
        auto const alone = run(pack<>{});
        CHECK(run(pack<on<mesh<host, dp<2>>>>{}) == alone);
        CHECK(run(pack<on<mesh<host, dp<3>>>>{}) == alone);
        CHECK(run(pack<on<mesh<host, pp<2>>>, pipeline<one_f_one_b, 6>, recompute<all>>{}) == alone);

        auto const samples = text_windows(text, context).take(0, 12);
        trainer<dropping, cross_entropy, adamw> still{{.learning_rate = 0.0f, .batch = 12}};
        CHECK(still.step(samples).loss != still.step(samples).loss);
        using never =
            network<input<context>, embedding<byte_vocabulary, width>, learned_positions,
                    residual<sequential<layer_norm, linear<3 * width>, attention<heads<3>, causal>, linear<width>>>,
                    residual<sequential<layer_norm, linear<3 * width>, attention<heads<3>, causal>, linear<width>>>,
                    layer_norm, linear<byte_vocabulary>>;
        trainer<never, cross_entropy, adamw> without{{.batch = 12}};
        without.load_parameters(still.gather_parameters());
        CHECK(still.evaluate(samples).loss == without.evaluate(samples).loss);
        auto const said = still.predict(samples), wanted = without.predict(samples);
        CHECK(std::ranges::equal(said[3], wanted[3]));
    }

    TEST_CASE("tokens that are ignored: the mean is over the others of the whole batch, on any number of devices") {
        constexpr std::size_t windows = 9;
        std::vector<int> tokens(windows * context), targets(tokens.size());
        random_stream const random(4, random_purpose::user);
        std::size_t counted = 0;
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            tokens[i] = static_cast<int>(random.below(2 * i, 7));
            bool const counts = i / context != 2 && random.below(2 * i + 1, 3) == 0; // of the third window none
            targets[i] = counts ? (tokens[i] + 1) % 7 : -1;
            counted += counts ? 1 : 0;
        }
        samples_in_memory const samples(tokens, make_shape(context), targets, make_shape(context), 7, -1);
        using small = network<input<context>, embedding<7, width>, learned_positions, layer_norm, linear<7>>;
        using loss = cross_entropy_with<ignoring<-1>>;
        auto const run = [&]<class... P>(pack<P...>) {
            trainer<small, loss, adamw, reproducible<fixed_tree, 3>, P...> t{
                {.learning_rate = 0.01f, .batch = windows}};
            std::vector<double> told;
            for (int i = 0; i < 30; ++i) told.push_back(t.step(samples).loss);
            auto const test = t.evaluate(samples);
            told.insert(told.end(), {test.loss, test.accuracy});
            return std::pair(told, t.gather_parameters());
        };
        auto const alone = run(pack<>{});
        CHECK(run(pack<on<mesh<host, dp<2>>>>{}) == alone);
        CHECK(run(pack<on<mesh<host, dp<3>>>>{}) == alone);
        CHECK(run(pack<on<mesh<host, pp<2>>>, pipeline<gpipe, 3>>{}) == alone);

        // by hand, from what the network says
        trainer<small, loss, sgd, precision<f64>> t{{.learning_rate = 0.0f, .batch = windows}};
        auto const said = t.predict(samples);
        auto const p = said.probabilities();
        double sum = 0;
        std::size_t right = 0;
        for (std::size_t i = 0; i < targets.size(); ++i)
            if (targets[i] != -1) {
                sum -= std::log(static_cast<double>(p[7 * i + static_cast<std::size_t>(targets[i])]));
                right += said.all_classes()[i] == static_cast<std::size_t>(targets[i]) ? 1 : 0;
            }
        CHECK(t.step(samples).loss == doctest::Approx(sum / static_cast<double>(counted)).epsilon(1e-12));
        auto const test = t.evaluate(samples);
        CHECK(test.loss == doctest::Approx(sum / static_cast<double>(counted)).epsilon(1e-12));
        CHECK(test.accuracy == static_cast<double>(right) / static_cast<double>(counted));
        CHECK(alone.first.back() > 0.9); // learnt

        std::vector<int> const none(tokens.size(), -1);
        samples_in_memory const nothing(tokens, make_shape(context), none, make_shape(context), 7, -1);
        CHECK(t.step(nothing).loss == 0);
        CHECK(t.evaluate(nothing).accuracy == 0);
        trainer<small, cross_entropy, sgd> plain{{.batch = windows}};
        CHECK_THROWS_WITH_AS(plain.step(samples), doctest::Contains("write cross_entropy_with<ignoring<-1>>"),
                             usage_error);
    }

    TEST_CASE("a step of one sample, and predictions: a class for each token") {
        gpt<> t{{.learning_rate = 3e-3f, .batch = 12}};
        losses_of(t, 40);
        auto const samples = text_windows(text, context).take(0, 2);
        auto const said = t.predict(samples);
        CHECK(said.shape() == make_shape(context, byte_vocabulary));
        CHECK(said.all_classes().size() == 2 * context);
        auto const p = said.probabilities();
        double sum = 0;
        for (std::size_t c = 0; c < byte_vocabulary; ++c) sum += static_cast<double>(p[byte_vocabulary + c]);
        CHECK(sum == doctest::Approx(1));
        CHECK(std::isfinite(t.step(samples.take(0, 1)).loss));
    }

    TEST_CASE("what is no token is told") {
        gpt<> t{{.learning_rate = 3e-3f, .batch = 2}};
        std::vector<int> tokens(2 * context + 1, 5), words = tokens;
        words[3] = 256;
        token_windows const large(words, context, 257);
        CHECK_THROWS_WITH_AS(t.step(large),
                             doctest::Contains("token 3 of sample 0 is 256, and the vocabulary of the "
                                               "network's embedding has 256 tokens"),
                             usage_error);
        token_windows const fine(tokens, context, 256);
        CHECK(std::isfinite(t.step(fine).loss));
        auto const halves =
            owned_samples(std::vector<float>(context, 0.5f), make_shape(context), std::vector<int>(1, 0), 256);
        CHECK_THROWS_WITH_AS(t.predict(halves), doctest::Contains("is 0.5"), usage_error);
    }
}

} // namespace trainer_tokens_test
