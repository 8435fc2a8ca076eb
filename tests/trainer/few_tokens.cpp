// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/reference.hpp>
#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <utility>
#include <vector>

// Samples of few tokens, some of which go through the rows together.

namespace trainer_few_tokens_test {
using namespace trireme;

namespace {

constexpr std::size_t width = 24, vocabulary = 11;

template<std::size_t Tokens>
using net = network<input<Tokens>, embedding<vocabulary, width>, learned_positions,
                    residual<sequential<layer_norm, linear<3 * width>,
                                        attention<heads<3>, causal, dropout<percent<20>>>, linear<width>>>,
                    residual<sequential<rms_norm, linear<2 * width>, gelu_tanh, dropout<percent<10>>, linear<width>>>,
                    flatten, linear<40>, relu, linear<5>>;

/// Made-up tokens, with a class for each sample.
template<std::size_t Tokens>
struct made_up {
    std::vector<float> tokens;
    std::vector<int> classes;

    explicit made_up(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            for (std::size_t t = 0; t < Tokens; ++t)
                tokens.push_back(static_cast<float>((7 * i + 5 * t + i / 3) % vocabulary));
            classes.push_back(static_cast<int>(i % 5));
        }
    }
    samples_in_memory samples() const { return {tokens, make_shape(Tokens), classes, 5}; }
};

/// The losses of some steps, the scores of the samples behind them, and the weights.
template<std::size_t Tokens, class... Policies>
auto training(std::size_t batch) {
    trainer<net<Tokens>, cross_entropy, sgd, Policies...> t{{.learning_rate = 0.1f, .batch = batch}};
    made_up<Tokens> const made(batch);
    auto const samples = made.samples();
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(t.step(samples).loss);
    losses.push_back(t.evaluate(samples).loss);
    return std::pair(losses, t.gather_parameters());
}

void close(auto const& a, auto const& b) {
    for (std::size_t i = 0; i < a.first.size(); ++i) CHECK(a.first[i] == doctest::Approx(b.first[i]).epsilon(1e-4));
    for (std::size_t i = 0; i < a.second.size(); ++i)
        if (!(a.second[i] == doctest::Approx(b.second[i]).epsilon(1e-3))) FAIL_CHECK("weight " << i);
}

} // namespace

TEST_SUITE("trainer/few_tokens") {
    TEST_CASE("samples of few tokens train as the reference trains them, however many there are") {
        for (std::size_t const batch : {1u, 5u, 29u}) {
            CAPTURE(batch);
            close(training<1>(batch), training<1, kernels<reference>>(batch));
            close(training<3>(batch), training<3, kernels<reference>>(batch));
        }
    }
    TEST_CASE("samples of few tokens have one device's bits in replicas and stages") {
        using same = reproducible<fixed_tree, 4>;
        auto const bits = training<3, same>(50);
        CHECK(training<3, same, on<mesh<host, dp<2>>>>(50) == bits);
        CHECK(training<3, same, on<mesh<host, pp<2>>>, pipeline<one_f_one_b, 4>>(50) == bits);
        CHECK(training<3, same, on<mesh<host, dp<2>, pp<2>>>, pipeline<gpipe, 2>, recompute<all>>(50) == bits);
        close(training<3, on<mesh<host, pp<2>>>, pipeline<zero_bubble_h1, 2>>(50), training<3, accumulate<2>>(50));
    }
}

} // namespace trainer_few_tokens_test
