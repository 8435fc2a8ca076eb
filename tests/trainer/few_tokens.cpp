// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/reference.hpp>
#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>
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

/// The losses of some steps and evaluations, predictions of other numbers of samples, and the weights.
template<class Net, class... Policies>
auto training_of(std::size_t batch, std::size_t others = 9) {
    constexpr auto tokens = Net::input_extents::size;
    trainer<Net, cross_entropy, sgd, Policies...> t{{.learning_rate = 0.1f, .batch = batch}};
    made_up<tokens> const made(batch), less(std::min({batch, others, std::size_t{7}})), more(others);
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(t.step(made.samples()).loss);
    losses.push_back(t.step(less.samples()).loss);
    losses.push_back(t.evaluate(made.samples()).loss);
    losses.push_back(t.evaluate(more.samples()).loss);
    auto const predicted = t.predict(more.samples());
    std::vector<float> numbers(predicted.values().begin(), predicted.values().end());
    auto const weights = t.gather_parameters();
    numbers.insert(numbers.end(), weights.begin(), weights.end());
    return std::pair(losses, numbers);
}
template<std::size_t Tokens, class... Policies>
auto training(std::size_t batch, std::size_t others = 9) {
    return training_of<net<Tokens>, Policies...>(batch, others);
}

/// A layer of a program's own that derives from one that takes several samples: its own function sees one.
struct doubled : linear<8> {
    static void forward(auto const& io) {
        linear<8>::forward(io);
        for (std::size_t i = 0; i < io.y.size(); ++i) io.y[i] *= 2;
    }
    static void backward_input(auto const& io) {
        linear<8>::backward_input(io);
        for (std::size_t i = 0; i < io.dx.size(); ++i) io.dx[i] *= 2;
    }
    static void backward_weights(auto const& io) {
        for (int twice = 0; twice < 2; ++twice) linear<8>::backward_weights(io);
    }
};

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
        for (std::size_t const others : {52u, 36u}) { // a stage has parts of 13 and of 8 samples and one
            auto const bits = training<3, same>(50, others);
            CHECK(training<3, same, on<mesh<host, dp<2>>>>(50, others) == bits);
            CHECK(training<3, same, on<mesh<host, pp<2>>>, pipeline<one_f_one_b, 4>>(50, others) == bits);
            CHECK(training<3, same, on<mesh<host, dp<2>, pp<2>>>, pipeline<gpipe, 2>, recompute<all>>(50, others) ==
                  bits);
        }
        CHECK(training<3, same, on<mesh<host, pp<2>>>, pipeline<gpipe, 4>>(32, 36) == training<3, same>(32, 36));
        CHECK(training<1, same, on<mesh<host, pp<2>>>, pipeline<gpipe, 4>>(32, 36) == training<1, same>(32, 36));
        close(training<3, on<mesh<host, pp<2>>>, pipeline<zero_bubble_h1, 2>>(50), training<3, accumulate<2>>(50));
    }
    TEST_CASE("a row whose outputs fill one register has the same bits alone and among others") {
        using same = reproducible<fixed_tree, 4>;
        auto const check = []<class Last, class... Policies>(std::type_identity<Last>, Policies...) {
            using ends = network<input<1>, embedding<vocabulary, 64>, relu, Last>;
            auto const bits = training_of<ends, same, Policies...>(20, 37);
            CHECK(training_of<ends, same, on<mesh<host, dp<2>>>, Policies...>(20, 37) == bits);
            CHECK(training_of<ends, same, on<mesh<host, pp<2>>>, Policies...>(20, 37) == bits);
        };
        check(std::type_identity<linear<8>>{});
        check(std::type_identity<linear<16>>{});
        check(std::type_identity<linear<5>>{}, precision<f64>{});
    }
    TEST_CASE("layers of one's own, and such that add to the loss, see one sample after the other") {
        using own = network<input<3>, embedding<vocabulary, width>, activity_penalty<percent<40>>, doubled, relu,
                            activity_penalty<percent<30>>, flatten, linear<5>>;
        close(training_of<own>(29), training_of<own, kernels<reference>>(29));
        using same = reproducible<fixed_tree, 4>;
        CHECK(training_of<own, same, on<mesh<host, pp<2>>>, pipeline<gpipe, 4>>(32, 36) ==
              training_of<own, same>(32, 36));
    }
    TEST_CASE("devices without samples agree on the numbers of a batch") {
        using agreed =
            network<input<3>, embedding<vocabulary, 6>, flatten, linear<7>, batch_norm<synchronised>, relu, linear<5>>;
        for (std::size_t const others : {2u, 3u})
            close(training_of<agreed, on<mesh<host, dp<4>>>>(24, others),
                  training_of<agreed, on<mesh<host, dp<4>>>, kernels<reference>>(24, others));
    }
    TEST_CASE("the gradients of a network of few tokens are those of its losses") {
        auto const report =
            check_gradients<sequential<layer_norm, linear<15>, attention<heads<1>>, linear<4>>, input<3, 5>>();
        CHECK(report.input_error < 1e-6);
        CHECK(report.parameter_error < 1e-6);
    }
}

} // namespace trainer_few_tokens_test
