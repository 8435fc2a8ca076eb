// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <doctest/doctest.h>
#include <support/decay.hpp>
#include <support/optimizers.hpp>

#include <array>

namespace trainer_without_decay_test {
using namespace trireme;
using namespace test_decay;
using namespace test_optimizers;

// weight and bias of conv2d, batch_norm, and both linear layers
constexpr bool is(update_run const& run, std::size_t begin, std::size_t end, bool decays) {
    return run.elements.begin == begin && run.elements.end == end && run.decays == decays;
}
template<class... Which>
constexpr auto runs = trainer<with_norms, cross_entropy, adamw, without_decay<Which...>>::plan({24}).layout.updates;

static_assert(runs<biases>.size() == 8 && is(runs<biases>[1], 27, 30, false));
static_assert(runs<norms>.size() == 3 && is(runs<norms>[1], 30, 36, false));
static_assert(runs<biases, norms>.size() == 6 && is(runs<biases, norms>[1], 27, 36, false));
static_assert(runs<of_at_least<0>>.size() == 1 && !runs<of_at_least<0>>[0].decays);
static_assert(runs<in_layer<3>>.size() == 1 && runs<in_layer<3>>[0].decays); // relu has none

using of_tokens = gpt<gpt_sizes{.layers = 1, .width = 4, .heads = 1, .context = 3, .vocabulary = 7}>;
template<class... Which>
constexpr auto runs_of_tokens =
    trainer<of_tokens, cross_entropy, adamw, without_decay<Which...>>::plan({24}).layout.updates;
static_assert(runs_of_tokens<embeddings>.size() == 2 && is(runs_of_tokens<embeddings>[0], 0, 28 + 12, false));
static_assert(is(runs_of_tokens<embeddings, norms>[0], 0, 28 + 12 + 8, false)); // and the first norm behind them

TEST_SUITE("trainer/without_decay") {
    TEST_CASE("each tensor decays, or does not, as a rule says") {
        follows_one_of_two<host, adamw, biases, norms>("dnnndndn", 1);
        follows_one_of_two<host, adam, biases>("dndndndn", 2);
        follows_one_of_two<host, sgd, norms>("ddnndddd", 1);
        follows_one_of_two<host, sgd_momentum, in_layer<1, 7>>("nnddddnn", 1);
        follows_one_of_two<host, sgd_nesterov, matrices>("ddddndnd", 3);
        follows_one_of_two<host, rmsprop, biases, norms>("dnnndndn", 1);
        follows_one_of_two<host, rmsprop_momentum, of_at_least<200>>("ndddndnd", 1);
        follows_one_of_two<host, adagrad, of_at_least<0>>("nnnnnnnn", 2);
    }

    TEST_CASE("weights have one device's bits on any number of replicas and stages") {
        has_one_devices_bits<adamw, host, with_norms, without_decay<biases, norms>, clip_norm>();
    }

    TEST_CASE("so they have where devices hold one copy of the weights, each with a slice of the state") {
        using policies = without_decay<biases>;
        using per_device_t = trainer<with_norms, cross_entropy, adamw, on<mesh<host, dp<3>>>, policies>;
        using once_t = trainer<with_norms, cross_entropy, adamw, on<mesh<host, dp<3>>>, policies, hold_weights<once>>;
        per_device_t apart({.learning_rate = 0.01f, .weight_decay = 0.5f, .batch = 50});
        once_t together({.learning_rate = 0.01f, .weight_decay = 0.5f, .batch = 50});
        CHECK(train(together) == train(apart));
    }

    TEST_CASE("processes agree in which parameters decay") {
        using with = trainer<with_norms, cross_entropy, adamw, on<mesh<host, dp<2>>>, without_decay<biases>>;
        auto const text = [](parallel_layout const& l) {
            return agreement<composition<with_norms, cross_entropy, adamw, portable, float>, xavier_uniform>(
                with::options{}, l);
        };
        auto layout = with::plan({24}).layout;
        CHECK(text(layout).find("; no decay of parameters 27 to 29; ") != std::string::npos);
        layout.updates = {};
        CHECK(text(layout).find("decay of") == std::string::npos);
    }
}

} // namespace trainer_without_decay_test
