// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable.hpp>
#include <trireme/kernels/reference.hpp>
#include <trireme/kernels/sample_by_sample.hpp>

#include <support/compare.hpp>
#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <pthread.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

// Attention over more tokens than have room on the stack, which goes by blocks of keys.

namespace kernels_long_attention_test {
using namespace trireme;

namespace {

using single = sample_by_sample<portable>;

constexpr std::size_t few = detail::few_tokens<double>;

dropout_draw<double> draw_of_sample(std::uint64_t sample) {
    return {{.seed = numbers::seed(), .step = 3, .shard = 2, .first = sample}, 5, 1'500'000'000, 1.5};
}

/// |a - b| / |b| of both kernels' results, which the test bounds by 1e-12. `draw`: none, or the draw of the weights.
template<class G, class... Draw>
void equals_reference(double size, Draw const&... draw) {
    CAPTURE(G::tokens);
    CAPTURE(G::heads);
    CAPTURE(G::head);
    CAPTURE(G::causal);
    CAPTURE(sizeof...(Draw));
    auto const x = numbers::uniform<double>(0, G::tokens * G::step, size),
               dy = numbers::uniform<double>(1, G::tokens * G::width);
    auto y = numbers::unset<double>(dy.size()), wanted_y = y, dx = numbers::unset<double>(x.size()), wanted_dx = dx;
    attention_forward<G, 1>(single{}, x.data(), y.data(), draw...);
    attention_forward<G, 1>(reference{}, x.data(), wanted_y.data(), draw...);
    CHECK(test_support::distance(y, wanted_y) <= 1e-12);
    attention_backward_input<G, 1>(single{}, x.data(), y.data(), dy.data(), dx.data(), draw...);
    attention_backward_input<G, 1>(reference{}, x.data(), wanted_y.data(), dy.data(), wanted_dx.data(), draw...);
    CHECK(test_support::distance(dx, wanted_dx) <= 1e-12);
    auto const largest = [](std::vector<double> const& a, std::vector<double> const& b) {
        return test_support::most_apart(a, b, [](double truth) { return 1e-12 * (1 + std::abs(truth)); });
    };
    CHECK(largest(y, wanted_y) <= 1);
    CHECK(largest(dx, wanted_dx) <= 1);
}

/// With dropout, too, of the seventh sample of a shard.
template<class G>
void both_equal_reference(double size = 2) {
    equals_reference<G>(size);
    equals_reference<G>(size, draw_of_sample(7));
}

template<std::size_t Tokens, std::size_t Width, std::size_t Heads>
void all_equal_reference() {
    both_equal_reference<attention_geometry<Tokens, Width, Heads, true>>();
    both_equal_reference<attention_geometry<Tokens, Width, Heads, false>>();
}

/// Scores that grow with the key, or fall: the largest one is in the last block, or in the first.
template<bool Causal>
void growing_scores_equal_reference(double slope) {
    using g = attention_geometry<2 * few + 3, 1, 1, Causal>;
    std::vector<double> x(g::tokens * g::step), y(g::tokens), wanted = y;
    auto const values = numbers::uniform<double>(2, g::tokens);
    for (std::size_t t = 0; t < g::tokens; ++t) {
        x[t * g::step + g::query] = 1;
        x[t * g::step + g::key] = slope * static_cast<double>(t);
        x[t * g::step + g::value] = values[t];
    }
    attention_forward<g, 1>(single{}, x.data(), y.data());
    attention_forward<g, 1>(reference{}, x.data(), wanted.data());
    CHECK(test_support::distance(y, wanted) <= 1e-12);
    auto dx = numbers::unset<double>(x.size()), wanted_dx = dx;
    attention_backward_input<g, 1>(single{}, x.data(), y.data(), values.data(), dx.data());
    attention_backward_input<g, 1>(reference{}, x.data(), wanted.data(), values.data(), wanted_dx.data());
    // Keys are some hundreds, and scores have their roundings.
    CHECK(test_support::distance(dx, wanted_dx) <= 1e-11);
}

/// Calls f in a thread with a stack of so many bytes.
template<class F>
void in_thread(std::size_t stack_bytes, F f) {
    pthread_attr_t attributes;
    REQUIRE(pthread_attr_init(&attributes) == 0);
    REQUIRE(pthread_attr_setstacksize(&attributes, stack_bytes) == 0);
    pthread_t thread;
    auto const run = [](void* call) -> void* {
        (*static_cast<F*>(call))();
        return nullptr;
    };
    REQUIRE(pthread_create(&thread, &attributes, run, &f) == 0);
    CHECK(pthread_attr_destroy(&attributes) == 0);
    CHECK(pthread_join(thread, nullptr) == 0);
}

} // namespace

TEST_SUITE("kernels/long_attention") {
    TEST_CASE("portable equals reference at the edges of the blocks of keys") {
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        static_assert(!detail::attends_by_keys<attention_geometry<few, 6, 2, true>, double>);
        static_assert(detail::attends_by_keys<attention_geometry<few + 1, 6, 2, true>, double>);
        all_equal_reference<few + 1, 3, 1>();
        both_equal_reference<attention_geometry<few + 21, 4, 2, true>>();
        both_equal_reference<attention_geometry<2 * few + 1, 2, 1, true>>();
    }

    TEST_CASE("backward computes again what does not stay on the stack") {
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        constexpr std::size_t stays = detail::blocks_that_stay * few;
        equals_reference<attention_geometry<stays + 40, 1, 1, true>>(3, draw_of_sample(1));
        equals_reference<attention_geometry<stays + 40, 1, 1, false>>(3);
    }

    TEST_CASE("a wide head over few tokens goes by blocks, too, and its rows by parts") {
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        constexpr std::size_t wide = detail::few_values<double> + 3;
        static_assert(detail::attends_by_keys<attention_geometry<20, wide, 1, true>, double>);
        static_assert(!detail::attends_by_keys<attention_geometry<20, wide - 3, 1, true>, double>);
        both_equal_reference<attention_geometry<20, wide, 1, true>>(0.3);
        both_equal_reference<attention_geometry<45, wide, 1, false>>(0.3);
    }

    TEST_CASE("the largest score may be in any block") {
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        for (double const slope : {0.5, -0.5, 0.01, 3.0, -2.0}) {
            CAPTURE(slope);
            growing_scores_equal_reference<true>(slope);
            growing_scores_equal_reference<false>(slope);
        }
    }

    TEST_CASE("the gradient is the slope of the output") {
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        using g = attention_geometry<few + 40, 4, 2, true>;
        auto const x = numbers::uniform<double>(0, g::tokens * g::step), way = numbers::uniform<double>(1, x.size()),
                   dy = numbers::uniform<double>(2, g::tokens * g::width);
        auto const draw = draw_of_sample(4);
        auto y = numbers::unset<double>(dy.size()), dx = numbers::unset<double>(x.size());
        auto const output = [&](double step) {
            auto moved = x;
            for (std::size_t i = 0; i < x.size(); ++i) moved[i] += step * way[i];
            attention_forward<g, 1>(single{}, moved.data(), y.data(), draw);
            return numbers::dot(y, dy);
        };
        double const h = 1e-4, slope = (output(h) - output(-h)) / (2 * h);
        output(0);
        attention_backward_input<g, 1>(single{}, x.data(), y.data(), dy.data(), dx.data(), draw);
        CHECK(numbers::dot(dx, way) == doctest::Approx(slope).epsilon(1e-6));
    }

    TEST_CASE_TEMPLATE("a token's output has the same bits, whatever tokens come behind it", T, float, double) {
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        constexpr std::size_t least = detail::few_tokens<T>, width = 10;
        auto const x = numbers::uniform<T>(0, 3 * width * (3 * least), 3);
        auto const first = [&]<std::size_t Tokens>(block_length<Tokens>, std::size_t count) {
            std::vector<T> y(Tokens * width);
            attention_forward<attention_geometry<Tokens, width, 2, true>, 1>(single{}, x.data(), y.data());
            y.resize(count * width);
            return y;
        };
        auto const all = [&](std::size_t count) { return first(block_length<2 * least + 77>{}, count); };
        CHECK(test_support::same_bits(first(block_length<21>{}, 21), all(21)));
        CHECK(test_support::same_bits(first(block_length<least>{}, least), all(least)));
        CHECK(test_support::same_bits(first(block_length<least + 1>{}, least + 1), all(least + 1)));
        CHECK(test_support::same_bits(first(block_length<2 * least + 5>{}, 2 * least + 5), all(2 * least + 5)));
    }

    TEST_CASE("stack memory does not grow with the number of tokens") {
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        constexpr std::size_t tokens = 5'000; // a row of weights for each of 32 queries would take 640 kB
        using g = attention_geometry<tokens, 2, 1, true>;
        auto const x = numbers::uniform<float>(0, tokens * g::step);
        std::vector<float> ones(tokens * g::width, 1), y(ones.size()), dx(x.size());
        dropout_draw<float> const draw{{.seed = numbers::seed()}, 5, 1u << 30, 4.0f / 3};
        in_thread(std::size_t{512} << 10, [&] {
            attention_forward<g, 1>(single{}, x.data(), y.data(), draw);
            attention_backward_input<g, 1>(single{}, x.data(), y.data(), ones.data(), dx.data(), draw);
        });
        using wide = attention_geometry<detail::few_tokens<float> + 1, 130, 1, false>; // the most that is on the stack
        auto const wide_x = numbers::uniform<float>(1, wide::tokens * wide::step);
        auto wide_y = numbers::unset<float>(wide::tokens * wide::width), wide_dx = numbers::unset<float>(wide_x.size());
        in_thread(std::size_t{512} << 10, [&] {
            attention_forward<wide, 1>(single{}, wide_x.data(), wide_y.data(), draw);
            attention_backward_input<wide, 1>(single{}, wide_x.data(), wide_y.data(), wide_y.data(), wide_dx.data(),
                                              draw);
        });
        CHECK(std::isfinite(numbers::dot(wide_dx, wide_dx)));
        // The last token's output by itself, in double.
        std::vector<double> score(tokens);
        double sum = 0, wanted[2] = {};
        auto const* const query = x.data() + (tokens - 1) * g::step;
        for (std::size_t s = 0; s < tokens; ++s) {
            auto const* const of = x.data() + s * g::step;
            auto const at = [](float a) { return static_cast<double>(a); };
            double const e = std::exp((at(query[0]) * at(of[2]) + at(query[1]) * at(of[3])) / std::sqrt(2.0));
            double const factor = static_cast<double>(draw.factor(g::first_weight(0, 0, tokens - 1) + s));
            sum += e;
            for (std::size_t d = 0; d < 2; ++d) wanted[d] += e * factor * at(of[4 + d]);
        }
        for (std::size_t d = 0; d < 2; ++d)
            CHECK(static_cast<double>(y[(tokens - 1) * 2 + d]) == doctest::Approx(wanted[d] / sum).epsilon(1e-4));
        double by_values = 0; // each token gives its gradient of 1 to values by weights that add up to about 1
        for (std::size_t t = 0; t < tokens; ++t) by_values += static_cast<double>(dx[t * g::step + g::value]);
        CHECK(by_values == doctest::Approx(static_cast<double>(tokens)).epsilon(0.02));
    }
}

} // namespace kernels_long_attention_test
