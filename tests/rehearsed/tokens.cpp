// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A decoder of tokens on accelerators, rehearsed on the host.

#include <trireme/rehearsal.hpp>
#include <trireme/schedules.hpp>

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/compare.hpp>
#include <support/decoders.hpp>

#include <cstddef>
#include <vector>

namespace rehearsed_tokens_test {
using namespace trireme;
using namespace rehearsed;
using namespace test_decoders;
using test_support::apart;

namespace {

template<class Network = decoder, class... Policies>
auto trained(pack<Policies...>, timing when = timing::late) {
    on_stage const as_told(when, 3);
    memory_taken const taken;
    learner<Network, Policies...> t{{.learning_rate = 1e-2f, .batch = 6}};
    if constexpr (!decltype(t)::policies::on_host) taken.is_planned(t);
    return test_decoders::trained(t);
}

/// Losses of steps, without the accuracy at the end.
std::vector<double> losses_of(auto const& trained) { return {trained.first.begin(), trained.first.end() - 1}; }

} // namespace

TEST_SUITE("rehearsed/tokens") {
    TEST_CASE("a decoder on two devices, and in two stages, has the losses of the host") {
        auto const wanted = trained(pack<>{});
        auto const close = [&](auto const& found) { CHECK(apart(found.first, wanted.first) < 1e-4); };
        close(trained(pack<on<mesh<rehearsal, dp<1>>>>{}));
        close(trained(pack<on<mesh<rehearsal, dp<2>>>>{}, timing::shuffled));
        close(trained(pack<on<mesh<rehearsal, dp<2>>>, accumulate<3>>{}));
        close(trained(pack<on<mesh<rehearsal, dp<2>>>, recompute<all>>{}, timing::shuffled));
        close(trained(pack<on<mesh<rehearsal, pp<2>>>, pipeline<one_f_one_b, 2>>{}));
        close(trained(pack<on<mesh<rehearsal, pp<2>>>, pipeline<zero_bubble_h1, 3>>{}, timing::shuffled));
    }

    TEST_CASE("other precisions: wide as on the host, and narrow nearly, in either order of images") {
        using in_double = precision<f64>;
        auto const check = [](auto const& found, auto const& wanted, double tolerance) {
            CHECK(apart(losses_of(found), losses_of(wanted)) < tolerance);
        };
        check(trained(pack<on<mesh<rehearsal, dp<2>>>, in_double>{}), trained(pack<in_double>{}), 1e-10);
        auto const wanted = trained(pack<>{});
        check(trained(pack<on<mesh<rehearsal, dp<2>>>, precision<bf16>>{}, timing::shuffled), wanted, 1e-2);
        check(trained(pack<on<mesh<rehearsal, dp<2>>>, precision<bf16>, kernels<channels_last<rehearsal::kernels>>>{}),
              wanted, 1e-2);
        check(trained(pack<on<mesh<rehearsal, pp<2>>>, pipeline<one_f_one_b, 2>, precision<bf16>>{}), wanted, 1e-2);
    }

    TEST_CASE("dropped weights, norms without a mean and products without a bias are the host's") {
        auto const wanted = trained<with_options>(pack<on<mesh<host, dp<2>>>>{});
        for (timing const when : {timing::late, timing::shuffled}) {
            auto const found = trained<with_options>(pack<on<mesh<rehearsal, dp<2>>>>{}, when);
            CHECK(apart(found.first, wanted.first) < 1e-4);
        }
        using same = reproducible<fixed_tree, 3>;
        auto const one = trained<with_options>(pack<on<mesh<rehearsal, dp<1>>>, same>{});
        CHECK(trained<with_options>(pack<on<mesh<rehearsal, dp<3>>>, recompute<all>, same>{}, timing::shuffled) == one);
    }

    TEST_CASE("an end that is tied to the embedding, in one stage and in two, wide and narrow") {
        auto const wanted = trained<tied_decoder>(pack<>{});
        auto const check = [&](auto const& found, double tolerance) {
            CHECK(apart(losses_of(found), losses_of(wanted)) < tolerance);
        };
        check(trained<tied_decoder>(pack<on<mesh<rehearsal, dp<2>>>>{}, timing::shuffled), 1e-4);
        check(trained<tied_decoder>(pack<on<mesh<rehearsal, pp<2>>>, pipeline<one_f_one_b, 2>>{}), 1e-4);
        check(trained<tied_decoder>(pack<on<mesh<rehearsal, dp<2>>>, precision<bf16>>{}), 1e-2);
    }

    TEST_CASE("a loss that ignores tokens is the host's, on any number of devices") {
        using losing = cross_entropy_with<ignoring<-1>, label_smoothing<percent<10>>>;
        constexpr std::size_t tokens = 8;
        using words = network<input<tokens>, embedding<20, 12>, linear<36>, attention<heads<2>>, linear<20>>;
        std::vector<int> inputs, labels;
        for (int i = 0; i < 24 * static_cast<int>(tokens); ++i) {
            inputs.push_back(i * i % 19);
            labels.push_back(i % 5 == 0 || i / static_cast<int>(tokens) % 4 == 1 ? -1 : i * 3 % 20); // whole samples
        }
        samples_in_memory const samples(inputs, make_shape(tokens), labels, make_shape(tokens), 20, -1);
        auto const of = [&]<class... Policies>(pack<Policies...>) {
            on_stage const as_told(timing::shuffled, 4);
            trainer<words, losing, adamw, Policies...> t{{.learning_rate = 1e-2f, .batch = 12}};
            std::vector<double> losses;
            for (int i = 0; i < 4; ++i) losses.push_back(t.step(samples).loss);
            auto const score = t.evaluate(samples);
            losses.insert(losses.end(), {score.loss, score.accuracy});
            return losses;
        };
        auto const wanted = of(pack<>{});
        CHECK(apart(of(pack<on<mesh<rehearsal, dp<1>>>>{}), wanted) < 1e-4);
        CHECK(apart(of(pack<on<mesh<rehearsal, dp<2>>>>{}), wanted) < 1e-4);
    }

    TEST_CASE("tokens above 256 keep their numbers in bf16, which has no odd numbers there") {
        on_stage const as_usual;
        constexpr std::size_t vocabulary = 700;
        using rows = network<input<4>, embedding<vocabulary, 8>>;
        std::vector<int> tokens;
        for (int i = 0; i < 41; ++i) tokens.push_back((i * 37 + 257) % static_cast<int>(vocabulary));
        token_windows const asked(tokens, 4, vocabulary);
        std::vector<float> table(rows::parameters);
        for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i / 8 % 128); // each one exact
        model<rows, on<mesh<rehearsal, dp<2>>>, precision<bf16>> m{{.batch = 6}}; // the last one has fewer
        m.load_parameters(table);
        auto const said = m.predict(asked);
        for (std::size_t s = 0; s < asked.size(); ++s)
            for (std::size_t t = 0; t < 4; ++t) CHECK(said[s][t * 8] == static_cast<float>(tokens[s * 4 + t] % 128));
    }

    TEST_CASE("its bits are those of one device where they are reproducible") {
        using same = reproducible<fixed_tree, 3>;
        auto const wanted = trained(pack<on<mesh<rehearsal, dp<1>>>, same>{});
        CHECK(trained(pack<on<mesh<rehearsal, dp<2>>>, same>{}, timing::shuffled) == wanted);
        CHECK(trained(pack<on<mesh<rehearsal, dp<3>>>, same>{}, timing::eager) == wanted);
        CHECK(trained(pack<on<mesh<rehearsal, pp<2>>>, pipeline<one_f_one_b, 3>, same>{}, timing::shuffled) == wanted);
    }
}

} // namespace rehearsed_tokens_test
