// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable.hpp>
#include <trireme/kernels/reference.hpp>
#include <trireme/kernels/sample_by_sample.hpp>

#include <kernels/cases.hpp>
#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace kernels_tokens_test {
using namespace trireme;
using kernel_cases::some_weights;

namespace {

using single = sample_by_sample<portable>;

/// Results of both policies differ by what rounding of sums of so many terms costs.
template<class T>
void same(std::vector<T> const& got, std::vector<T> const& expected, std::size_t terms) {
    CHECK(numbers::apart(got, expected, terms) <= 1);
}

template<class G, class T>
void linear_equals_reference() {
    CAPTURE(G::inputs);
    CAPTURE(G::outputs);
    CAPTURE(G::rows);
    auto const x = numbers::uniform<T>(0, G::rows * G::inputs), w = numbers::uniform<T>(1, G::inputs * G::outputs),
               biases = numbers::uniform<T>(2, G::outputs), dy = numbers::uniform<T>(3, G::rows * G::outputs);
    auto const* const b = G::bias ? biases.data() : nullptr;
    auto y = numbers::unset<T>(dy.size()), wanted_y = y, dx = numbers::unset<T>(x.size()), wanted_dx = dx;
    auto dw = numbers::uniform<T>(4, w.size()), wanted_dw = dw, db = biases, wanted_db = biases;
    linear_forward<G, 1>(single{}, x.data(), w.data(), b, y.data());
    linear_forward<G, 1>(reference{}, x.data(), w.data(), b, wanted_y.data());
    same(y, wanted_y, G::inputs);
    linear_backward_input<G, 1>(single{}, w.data(), dy.data(), dx.data());
    linear_backward_input<G, 1>(reference{}, w.data(), dy.data(), wanted_dx.data());
    same(dx, wanted_dx, G::outputs);
    linear_backward_weights<G, 1>(single{}, x.data(), dy.data(), dw.data(), G::bias ? db.data() : nullptr);
    linear_backward_weights<G, 1>(reference{}, x.data(), dy.data(), wanted_dw.data(),
                                  G::bias ? wanted_db.data() : nullptr);
    same(dw, wanted_dw, G::rows);
    same(db, wanted_db, G::rows);
}

template<class G, class T>
void embedding_equals_reference() {
    CAPTURE(G::vocabulary);
    CAPTURE(G::width);
    std::vector<T> x(G::tokens);
    for (std::size_t t = 0; t < x.size(); ++t) x[t] = static_cast<T>((7 * t + 3) % G::vocabulary); // some twice
    auto const w = numbers::uniform<T>(0, G::vocabulary * G::width), dy = numbers::uniform<T>(1, G::tokens * G::width);
    auto y = numbers::unset<T>(dy.size()), wanted = y, dw = w, wanted_dw = w;
    embedding_forward<G, 1>(single{}, x.data(), w.data(), y.data());
    embedding_forward<G, 1>(reference{}, x.data(), w.data(), wanted.data());
    CHECK(y == wanted);
    embedding_backward_weights<G, 1>(single{}, x.data(), dy.data(), dw.data());
    embedding_backward_weights<G, 1>(reference{}, x.data(), dy.data(), wanted_dw.data());
    CHECK(dw == wanted_dw);
}

template<class G, class T>
void layer_norm_equals_reference(double offset = 0) {
    CAPTURE(G::tokens);
    CAPTURE(G::width);
    CAPTURE(offset);
    auto x = numbers::uniform<T>(0, G::tokens * G::width);
    for (auto& value : x) value += static_cast<T>(offset);
    auto const w = numbers::uniform<T>(1, G::width), b = numbers::uniform<T>(2, G::width),
               dy = numbers::uniform<T>(3, x.size());
    auto y = numbers::unset<T>(x.size()), wanted_y = y, dx = y, wanted_dx = y;
    auto dw = numbers::uniform<T>(4, G::width), wanted_dw = dw, db = dw, wanted_db = dw;
    auto const terms = 16 * G::width * static_cast<std::size_t>(1 + offset * offset);
    layer_norm_forward<G, 1>(single{}, x.data(), w.data(), b.data(), 1e-5, y.data());
    layer_norm_forward<G, 1>(reference{}, x.data(), w.data(), b.data(), 1e-5, wanted_y.data());
    same(y, wanted_y, terms);
    layer_norm_backward_input<G, 1>(single{}, x.data(), dy.data(), w.data(), 1e-5, dx.data());
    layer_norm_backward_input<G, 1>(reference{}, x.data(), dy.data(), w.data(), 1e-5, wanted_dx.data());
    same(dx, wanted_dx, terms);
    auto in_place = dy;
    layer_norm_backward_input<G, 1>(single{}, x.data(), in_place.data(), w.data(), 1e-5, in_place.data());
    CHECK(in_place == dx);
    layer_norm_backward_weights<G, 1>(single{}, x.data(), dy.data(), 1e-5, dw.data(), db.data());
    layer_norm_backward_weights<G, 1>(reference{}, x.data(), dy.data(), 1e-5, wanted_dw.data(), wanted_db.data());
    same(dw, wanted_dw, terms * G::tokens);
    same(db, wanted_db, G::tokens);
}

template<class G, class T>
void rms_norm_equals_reference() {
    CAPTURE(G::tokens);
    CAPTURE(G::width);
    CAPTURE(G::weighted);
    auto const x = numbers::uniform<T>(0, G::tokens * G::width), weights = numbers::uniform<T>(1, G::width),
               dy = numbers::uniform<T>(3, x.size());
    auto const* const w = G::weighted ? weights.data() : nullptr;
    auto y = numbers::unset<T>(x.size()), wanted_y = y, dx = y, wanted_dx = y;
    rms_norm_forward<G, 1>(single{}, x.data(), w, 1e-3, y.data());
    rms_norm_forward<G, 1>(reference{}, x.data(), w, 1e-3, wanted_y.data());
    same(y, wanted_y, 16 * G::width);
    rms_norm_backward_input<G, 1>(single{}, x.data(), dy.data(), w, 1e-3, dx.data());
    rms_norm_backward_input<G, 1>(reference{}, x.data(), dy.data(), w, 1e-3, wanted_dx.data());
    same(dx, wanted_dx, 16 * G::width);
    auto in_place = dy;
    rms_norm_backward_input<G, 1>(single{}, x.data(), in_place.data(), w, 1e-3, in_place.data());
    CHECK(in_place == dx);
    if constexpr (G::weighted) {
        auto dw = numbers::uniform<T>(4, G::width), wanted_dw = dw;
        rms_norm_backward_weights<G, 1>(single{}, x.data(), dy.data(), 1e-3, dw.data());
        rms_norm_backward_weights<G, 1>(reference{}, x.data(), dy.data(), 1e-3, wanted_dw.data());
        same(dw, wanted_dw, 16 * G::width * G::tokens);
    }
}

/// `draw`: none, or the dropout_draw of the weights.
template<class G, class T, class... Draw>
void attention_equals_reference(T size, Draw const&... draw) {
    CAPTURE(G::tokens);
    CAPTURE(G::heads);
    CAPTURE(G::head);
    CAPTURE(G::causal);
    CAPTURE(sizeof...(Draw));
    auto x = numbers::uniform<T>(0, G::tokens * G::step);
    for (auto& value : x) value *= size;
    auto const dy = numbers::uniform<T>(1, G::tokens * G::width);
    auto y = numbers::unset<T>(dy.size()), wanted_y = y, dx = numbers::unset<T>(x.size()), wanted_dx = dx;
    attention_forward<G, 1>(single{}, x.data(), y.data(), draw...);
    attention_forward<G, 1>(reference{}, x.data(), wanted_y.data(), draw...);
    auto const terms = 8 * (G::tokens + G::head) * static_cast<std::size_t>(1 + size * size * size);
    same(y, wanted_y, terms);
    attention_backward_input<G, 1>(single{}, x.data(), y.data(), dy.data(), dx.data(), draw...);
    attention_backward_input<G, 1>(reference{}, x.data(), wanted_y.data(), dy.data(), wanted_dx.data(), draw...);
    same(dx, wanted_dx, terms);
}

/// With dropout, too, of the seventh sample of a shard.
template<class G, class T>
void attentions_equal_reference(T size = 1) {
    attention_equals_reference<G, T>(size);
    dropout_draw<T> const draw{{.seed = numbers::seed(), .step = 3, .shard = 2, .first = 7}, 5, 1'500'000'000, T(1.5)};
    attention_equals_reference<G, T>(size, draw);
}

template<class G, class T>
void cross_entropy_equals_reference() {
    CAPTURE(G::tokens);
    CAPTURE(G::width);
    auto x = numbers::uniform<T>(0, G::tokens * G::width);
    for (auto& value : x) value *= T(5);
    std::vector<int> targets(G::tokens);
    for (std::size_t t = 0; t < G::tokens; ++t) targets[t] = static_cast<int>((5 * t + 1) % G::width);
    x[static_cast<std::size_t>(targets[0])] = 9; // right
    T const weight = T(0.25);
    auto dx = numbers::unset<T>(x.size()), wanted = dx;
    T loss = 0, wanted_loss = 0, alone = 0, wanted_alone = 0;
    int correct = 0, wanted_correct = 0;
    token_cross_entropy<G, 1>(single{}, x.data(), targets.data(), &weight, dx.data(), &loss);
    token_cross_entropy<G, 1>(reference{}, x.data(), targets.data(), &weight, wanted.data(), &wanted_loss);
    token_cross_entropy_loss<G, 1>(single{}, x.data(), targets.data(), &alone, &correct);
    token_cross_entropy_loss<G, 1>(reference{}, x.data(), targets.data(), &wanted_alone, &wanted_correct);
    same(dx, wanted, 16 + G::width);
    same(std::vector<T>{loss, alone}, std::vector<T>{wanted_loss, wanted_alone}, 16 * (G::width + G::tokens));
    CHECK(loss == alone);
    CHECK(correct == wanted_correct);
    CHECK(correct >= 1);
    token_cross_entropy<G, 1>(single{}, x.data(), targets.data(), &weight, x.data(), &loss); // in place
    CHECK(x == dx);
}

template<class Targets, class G, class T>
void soft_cross_entropy_equals_reference() {
    CAPTURE(G::tokens);
    CAPTURE(G::width);
    auto x = numbers::uniform<T>(0, G::tokens * G::width);
    for (auto& value : x) value *= T(5);
    std::vector<int> labels(G::tokens);
    for (std::size_t t = 0; t < G::tokens; ++t)
        labels[t] = t % 3 == 1 && !Targets::counts(-1) ? -1 : static_cast<int>((5 * t + 1) % G::width);
    x[static_cast<std::size_t>(labels[0])] = 9;                            // right
    if (labels[1] == -1) x[G::width] = std::numeric_limits<T>::infinity(); // counts nothing
    T const weight = T(0.25);
    auto dx = numbers::unset<T>(x.size()), wanted = dx;
    T loss = 0, wanted_loss = 0, alone = 0, wanted_alone = 0;
    int correct = 0, wanted_correct = 0;
    token_soft_cross_entropy_gradient<Targets, G, 1>(single{}, x.data(), labels.data(), &weight, dx.data(), &loss);
    token_soft_cross_entropy_gradient<Targets, G, 1>(reference{}, x.data(), labels.data(), &weight, wanted.data(),
                                                     &wanted_loss);
    token_soft_cross_entropy<Targets, G, 1>(single{}, x.data(), labels.data(), &alone, &correct);
    token_soft_cross_entropy<Targets, G, 1>(reference{}, x.data(), labels.data(), &wanted_alone, &wanted_correct);
    same(dx, wanted, 32 + 2 * G::width);
    same(std::vector<T>{loss, alone}, std::vector<T>{wanted_loss, wanted_alone}, 32 * (G::width + G::tokens));
    CHECK(loss == alone);
    CHECK(correct == wanted_correct);
    CHECK(correct >= (Targets::is_scored(labels[0]) ? 1 : 0));
    token_soft_cross_entropy_gradient<Targets, G, 1>(single{}, x.data(), labels.data(), &weight, x.data(), &loss);
    CHECK(x == dx); // in place
}

template<std::size_t Tokens, std::size_t Classes, class T>
void soft_cross_entropies_equal_reference() {
    using g = token_geometry<Tokens, Classes>;
    soft_cross_entropy_equals_reference<soft_targets<Classes, 0, void, -1>, g, T>();
    soft_cross_entropy_equals_reference<soft_targets<Classes, 10, void, no_label>, g, T>();
    soft_cross_entropy_equals_reference<soft_targets<Classes, 0, some_weights<Classes>, no_label>, g, T>();
    soft_cross_entropy_equals_reference<soft_targets<Classes, 20, some_weights<Classes>, -1>, g, T>();
}

template<class T>
void all_kernels() {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    linear_equals_reference<linear_geometry<16, 48, 8>, T>();
    linear_equals_reference<linear_geometry<17, 3, 5>, T>();
    linear_equals_reference<linear_geometry<300, 130, 13>, T>(); // more terms, and outputs, than a block
    linear_equals_reference<linear_geometry<70, 300, 271>, T>(); // more rows than pass together, and terms than a panel
    linear_equals_reference<linear_geometry<1, 1, 2>, T>();
    linear_equals_reference<linear_geometry<17, 3, 5, false>, T>();
    linear_equals_reference<linear_geometry<300, 130, 13, false>, T>();
    embedding_equals_reference<embedding_geometry<11, 9, 20>, T>();
    embedding_equals_reference<embedding_geometry<256, 40, 16>, T>();
    layer_norm_equals_reference<token_geometry<3, 16>, T>();
    layer_norm_equals_reference<token_geometry<5, 37>, T>();
    layer_norm_equals_reference<token_geometry<37, 20>, T>(); // more tokens than go together
    layer_norm_equals_reference<token_geometry<2, 3>, T>();
    layer_norm_equals_reference<token_geometry<33, 53>, T>();
    layer_norm_equals_reference<token_geometry<19, 1000>,
                                T>(); // wider than two rounds have room for in the first cache
    layer_norm_equals_reference<token_geometry<2, 128>, T>(30);
    rms_norm_equals_reference<rms_norm_geometry<3, 16, true>, T>();
    rms_norm_equals_reference<rms_norm_geometry<5, 37, true>, T>();
    rms_norm_equals_reference<rms_norm_geometry<2, 3, true>, T>();
    rms_norm_equals_reference<rms_norm_geometry<4, 131, false>, T>();
    rms_norm_equals_reference<rms_norm_geometry<33, 53, true>, T>(); // more tokens than go together
    attentions_equal_reference<attention_geometry<8, 16, 4, true>, T>();
    attentions_equal_reference<attention_geometry<37, 15, 3, true>, T>();
    attentions_equal_reference<attention_geometry<37, 15, 3, false>, T>();
    attentions_equal_reference<attention_geometry<130, 64, 2, true>, T>();
    attentions_equal_reference<attention_geometry<130, 32, 1, false>, T>();
    attentions_equal_reference<attention_geometry<64, 16, 2, true>, T>();
    attentions_equal_reference<attention_geometry<41, 6, 2, true>, T>(); // the last block is less than half of one
    attentions_equal_reference<attention_geometry<1, 4, 1, true>, T>();
    attentions_equal_reference<attention_geometry<20, 8, 2, true>, T>(T(6));
    cross_entropy_equals_reference<token_geometry<6, 10>, T>();
    cross_entropy_equals_reference<token_geometry<3, 256>, T>();
    cross_entropy_equals_reference<token_geometry<2, 65>, T>();
    soft_cross_entropies_equal_reference<6, 10, T>();
    soft_cross_entropies_equal_reference<3, 256, T>();
    soft_cross_entropies_equal_reference<5, 65, T>();
}

} // namespace

TEST_SUITE("kernels/tokens") {
    TEST_CASE_TEMPLATE("portable equals reference, whatever the numbers of tokens, heads and values", T, float,
                       double) {
        all_kernels<T>();
    }

    TEST_CASE_TEMPLATE("the largest of any number of numbers, wherever it is", T, float, double) {
        for (std::size_t n = 1; n < 150; n += n < 70 ? 1 : 11)
            for (std::size_t at = 0; at < n; ++at) {
                std::vector<T> x(n, T(-3)); // below what may stand behind the last
                x[at] = -2;
                if (detail::largest_of(x.data(), n) != -2) FAIL(n << " numbers, the largest is " << at);
            }
    }

    TEST_CASE("a token's results have the same bits, whatever tokens come behind it") {
        constexpr std::size_t few = 21, more = 70, width = 24, wide = 150; // of which the sums are cut
        auto const x = numbers::uniform<float>(0, wide * more), w = numbers::uniform<float>(1, wide * width),
                   b = numbers::uniform<float>(2, width), dy = numbers::uniform<float>(3, wide * more);
        auto const same_bits = [&](auto const& of_few, auto const& of_more) {
            std::vector<float> some(few * width), all(more * width);
            of_few(some.data());
            of_more(all.data());
            all.resize(some.size());
            CHECK(all == some);
        };
        auto const of_tokens = [&](auto const& f) {
            same_bits([&](float* to) { f(token_geometry<few, width>{}, to); },
                      [&](float* to) { f(token_geometry<more, width>{}, to); });
        };
        of_tokens([&]<class G>(G, float* y) {
            linear_forward<linear_geometry<wide, width, G::tokens>, 1>(single{}, x.data(), w.data(), b.data(), y);
        });
        of_tokens([&]<class G>(G, float* dx) {
            linear_backward_input<linear_geometry<width, wide, G::tokens>, 1>(single{}, w.data(), dy.data(), dx);
        });
        of_tokens(
            [&]<class G>(G, float* y) { layer_norm_forward<G, 1>(single{}, x.data(), w.data(), b.data(), 1e-5, y); });
        of_tokens([&]<class G>(G, float* dx) {
            layer_norm_backward_input<G, 1>(single{}, x.data(), dy.data(), w.data(), 1e-5, dx);
        });
        of_tokens([&]<class G>(G, float* y) {
            rms_norm_forward<rms_norm_geometry<G::tokens, width, true>, 1>(single{}, x.data(), w.data(), 1e-5, y);
        });
        of_tokens([&]<class G>(G, float* dx) {
            rms_norm_backward_input<rms_norm_geometry<G::tokens, width, true>, 1>(single{}, x.data(), dy.data(),
                                                                                  w.data(), 1e-5, dx);
        });
        of_tokens([&]<class G>(G, float* y) {
            attention_forward<attention_geometry<G::tokens, width, 2, true>, 1>(single{}, x.data(), y);
        });
    }

    TEST_CASE("by hand: a token looks at itself and at those before it") {
        using g = attention_geometry<2, 1, 1, true>;
        double const x[] = {1, 2, 10, /**/ 3, 4, 20}; // query, key, value
        double y[2];
        attention_forward<g, 1>(reference{}, x, y);
        CHECK(y[0] == 10);
        CHECK(y[1] == doctest::Approx((std::exp(6.0) * 10 + std::exp(12.0) * 20) / (std::exp(6.0) + std::exp(12.0))));
        attention_forward<attention_geometry<2, 1, 1, false>, 1>(reference{}, x, y);
        CHECK(y[0] == doctest::Approx((std::exp(2.0) * 10 + std::exp(4.0) * 20) / (std::exp(2.0) + std::exp(4.0))));
    }

    TEST_CASE_TEMPLATE("by hand: rms_norm of 3 and 4", Policy, single, reference) {
        double const x[] = {3, 4}, w[] = {2, 1}, *const none = nullptr;
        double y[2];
        rms_norm_forward<rms_norm_geometry<1, 2, true>, 1>(Policy{}, x, w, 0.0, y);
        CHECK(y[0] == doctest::Approx(2 * 3 / std::sqrt(12.5)));
        CHECK(y[1] == doctest::Approx(4 / std::sqrt(12.5)));
        rms_norm_forward<rms_norm_geometry<1, 2, false>, 1>(Policy{}, x, none, 3.5, y);
        CHECK(y[0] == doctest::Approx(0.75)); // 3 / sqrt(12.5 + 3.5)
        CHECK(y[1] == doctest::Approx(1));
    }

    TEST_CASE_TEMPLATE("dropout: each weight has its number in the shard, whichever sample it is of", Policy, single,
                       reference) {
        constexpr std::size_t tokens = 21, heads = 3, width = 2 * heads;
        using g = attention_geometry<tokens, width, heads, false>;
        INFO("TRIREME_TEST_SEED=", numbers::seed());
        std::vector<double> x(tokens * 3 * width, 0.0), y(tokens * width); // all weights are 1 / tokens, all values 1
        for (std::size_t t = 0; t < tokens; ++t) std::fill_n(x.data() + t * 3 * width + 2 * width, width, 1.0);
        constexpr std::uint32_t quarter = std::uint32_t{1} << 30;
        std::size_t kept = 0, all = 0;
        for (std::uint64_t const sample : {0ull, 5ull, 1'000'000ull, 1ull << 33}) { // the last numbers have 44 bits
            CAPTURE(sample);
            dropout_draw<double> const draw{
                {.seed = numbers::seed(), .step = 8, .shard = 4, .first = sample}, 6, quarter, 4.0 / 3};
            random_stream const random(numbers::seed(), random_purpose::dropout, 8, 6, 4);
            attention_forward<g, 1>(Policy{}, x.data(), y.data(), draw);
            for (std::size_t h = 0; h < heads; ++h)
                for (std::size_t t = 0; t < tokens; ++t, all += tokens) {
                    std::size_t of_token = 0;
                    for (std::size_t s = 0; s < tokens; ++s)
                        of_token += random.bits(((sample * heads + h) * tokens + t) * tokens + s) >= quarter ? 1 : 0;
                    auto const wanted = static_cast<double>(of_token) * 4 / 3 / tokens;
                    CHECK(y[t * width + 2 * h] == doctest::Approx(wanted).epsilon(1e-12));
                    CHECK(y[t * width + 2 * h + 1] == doctest::Approx(wanted).epsilon(1e-12));
                    kept += of_token;
                }
        }
        auto const n = static_cast<double>(all);
        CHECK(std::abs(static_cast<double>(kept) - 0.75 * n) <= 7 * std::sqrt(0.1875 * n)); // 7 deviations
    }
}

} // namespace kernels_tokens_test
