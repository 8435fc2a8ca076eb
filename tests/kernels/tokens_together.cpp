// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/portable.hpp>
#include <trireme/kernels/reference.hpp>
#include <trireme/kernels/sample_by_sample.hpp>

#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

// Kernels for some samples of few tokens at once, beside those that take one sample after the other.

namespace kernels_tokens_together_test {
using namespace trireme;

namespace {

using single = sample_by_sample<portable>;
using several = sample_by_sample<portable_together>;

several together(std::size_t samples) {
    several k;
    k.together = samples;
    return k;
}

/// f(samples) for granules of some sizes.
template<class F>
void for_samples(F const& f) {
    for (std::size_t const samples : {1u, 2u, 3u, 8u, 24u, 25u, 150u}) {
        CAPTURE(samples);
        f(samples);
    }
}

/// `draw`: none, or the dropout_draw of the weights.
template<class G, class T, class... Draw>
void attention_has_the_same_bits(std::size_t samples, Draw const&... draw) {
    constexpr std::size_t in = G::tokens * G::step, out = G::tokens * G::width;
    auto const x = numbers::uniform<T>(0, samples * in, 3), dy = numbers::uniform<T>(1, samples * out);
    auto y = numbers::unset<T>(dy.size()), wanted_y = y, dx = numbers::unset<T>(x.size()), wanted_dx = dx;
    attention_forward<G, 1>(together(samples), x.data(), y.data(), draw...);
    attention_backward_input<G, 1>(together(samples), x.data(), y.data(), dy.data(), dx.data(), draw...);
    for (std::size_t s = 0; s < samples; ++s) {
        [[maybe_unused]] auto const of_sample = [s](auto each) {
            each.granule.first += s;
            return each;
        };
        attention_forward<G, 1>(single{}, x.data() + s * in, wanted_y.data() + s * out, of_sample(draw)...);
        attention_backward_input<G, 1>(single{}, x.data() + s * in, wanted_y.data() + s * out, dy.data() + s * out,
                                       wanted_dx.data() + s * in, of_sample(draw)...);
    }
    CHECK(y == wanted_y);
    CHECK(dx == wanted_dx);
}
template<class T, std::size_t Tokens, std::size_t Width, std::size_t Heads>
void attentions_have_the_same_bits() {
    CAPTURE(Tokens);
    CAPTURE(Heads);
    CAPTURE(Width);
    dropout_draw<T> const draw{{.seed = numbers::seed(), .step = 3, .shard = 2, .first = 7}, 5, 1'500'000'000, T(1.5)};
    for_samples([&](std::size_t samples) {
        attention_has_the_same_bits<attention_geometry<Tokens, Width, Heads, true>, T>(samples);
        attention_has_the_same_bits<attention_geometry<Tokens, Width, Heads, false>, T>(samples);
        attention_has_the_same_bits<attention_geometry<Tokens, Width, Heads, true>, T>(samples, draw);
        attention_has_the_same_bits<attention_geometry<Tokens, Width, Heads, false>, T>(samples, draw);
    });
}

template<class T, std::size_t Tokens, std::size_t Width>
void norms_have_the_same_bits() {
    CAPTURE(Tokens);
    CAPTURE(Width);
    using layer = token_geometry<Tokens, Width>;
    using rms = rms_norm_geometry<Tokens, Width, true>;
    constexpr std::size_t size = Tokens * Width;
    for_samples([](std::size_t samples) {
        auto const x = numbers::uniform<T>(0, samples * size), dy = numbers::uniform<T>(1, samples * size),
                   w = numbers::uniform<T>(2, Width), b = numbers::uniform<T>(3, Width);
        auto y = numbers::unset<T>(x.size()), wanted_y = y, dx = y, wanted_dx = y;
        auto dw = w, wanted_dw = w, db = b, wanted_db = b;
        auto const k = together(samples);
        layer_norm_forward<layer, 1>(k, x.data(), w.data(), b.data(), 1e-5, y.data());
        layer_norm_backward_input<layer, 1>(k, x.data(), dy.data(), w.data(), 1e-5, dx.data());
        layer_norm_backward_weights<layer, 1>(k, x.data(), dy.data(), 1e-5, dw.data(), db.data());
        for (std::size_t at = 0; at < x.size(); at += size) {
            layer_norm_forward<layer, 1>(single{}, x.data() + at, w.data(), b.data(), 1e-5, wanted_y.data() + at);
            layer_norm_backward_input<layer, 1>(single{}, x.data() + at, dy.data() + at, w.data(), 1e-5,
                                                wanted_dx.data() + at);
            layer_norm_backward_weights<layer, 1>(single{}, x.data() + at, dy.data() + at, 1e-5, wanted_dw.data(),
                                                  wanted_db.data());
        }
        CHECK(y == wanted_y);
        CHECK(dx == wanted_dx);
        CHECK(dw == wanted_dw);
        CHECK(db == wanted_db);

        dw = wanted_dw = w;
        rms_norm_forward<rms, 1>(k, x.data(), w.data(), 1e-3, y.data());
        rms_norm_backward_input<rms, 1>(k, x.data(), dy.data(), w.data(), 1e-3, dx.data());
        rms_norm_backward_weights<rms, 1>(k, x.data(), dy.data(), 1e-3, dw.data());
        for (std::size_t at = 0; at < x.size(); at += size) {
            rms_norm_forward<rms, 1>(single{}, x.data() + at, w.data(), 1e-3, wanted_y.data() + at);
            rms_norm_backward_input<rms, 1>(single{}, x.data() + at, dy.data() + at, w.data(), 1e-3,
                                            wanted_dx.data() + at);
            rms_norm_backward_weights<rms, 1>(single{}, x.data() + at, dy.data() + at, 1e-3, wanted_dw.data());
        }
        CHECK(y == wanted_y);
        CHECK(dx == wanted_dx);
        CHECK(dw == wanted_dw);
    });
}

/// Values and their gradients have the same bits however many samples go together, those of one sample's kernels where
/// these are products of rows; gradients of weights are summed over more tokens at a time.
template<class T, std::size_t In, std::size_t Out, std::size_t Tokens, bool Bias>
void linear_goes_together() {
    CAPTURE(In);
    CAPTURE(Out);
    CAPTURE(Tokens);
    CAPTURE(Bias);
    using G = linear_geometry<In, Out, Tokens, Bias>;
    for_samples([](std::size_t samples) {
        auto const rows = samples * Tokens;
        auto const x = numbers::uniform<T>(0, rows * In), dy = numbers::uniform<T>(1, rows * Out),
                   w = numbers::uniform<T>(2, In * Out), biases = numbers::uniform<T>(3, Out);
        auto const* const b = Bias ? biases.data() : nullptr;
        auto y = numbers::unset<T>(dy.size()), wanted_y = y, dx = numbers::unset<T>(x.size()), wanted_dx = dx;
        auto y_alone = y, dx_alone = dx;
        auto dw = w, wanted_dw = w, db = biases, wanted_db = biases;
        auto const gradient_of = [](std::vector<T>& of) { return Bias ? of.data() : nullptr; };
        auto const k = together(samples);
        linear_forward<G, 1>(k, x.data(), w.data(), b, y.data());
        linear_backward_input<G, 1>(k, w.data(), dy.data(), dx.data());
        linear_backward_weights<G, 1>(k, x.data(), dy.data(), dw.data(), gradient_of(db));
        for (std::size_t s = 0; s < samples; ++s) {
            auto const *const of_x = x.data() + s * Tokens * In, *const of_dy = dy.data() + s * Tokens * Out;
            linear_forward<G, 1>(single{}, of_x, w.data(), b, wanted_y.data() + s * Tokens * Out);
            linear_backward_input<G, 1>(single{}, w.data(), of_dy, wanted_dx.data() + s * Tokens * In);
            linear_forward<G, 1>(together(1), of_x, w.data(), b, y_alone.data() + s * Tokens * Out);
            linear_backward_input<G, 1>(together(1), w.data(), of_dy, dx_alone.data() + s * Tokens * In);
            linear_backward_weights<G, 1>(reference{}, of_x, of_dy, wanted_dw.data(), gradient_of(wanted_db));
        }
        if (Tokens > 1)
            CHECK(y == wanted_y);
        else
            CHECK(numbers::apart(y, wanted_y, In) <= 1);
        CHECK(y == y_alone);
        CHECK(dx == dx_alone);
        CHECK(numbers::apart(dx, wanted_dx, Out) <= (Tokens > 1 ? 0 : 1));
        CHECK(numbers::apart(dw, wanted_dw, rows) <= 1);
        CHECK(numbers::apart(db, wanted_db, rows) <= 1);
    });
}

template<class T>
void all_go_together() {
    attentions_have_the_same_bits<T, 1, 16, 4>();
    attentions_have_the_same_bits<T, 2, 40, 1>();
    attentions_have_the_same_bits<T, 5, 96, 3>();
    attentions_have_the_same_bits<T, 7, 34, 2>();
    norms_have_the_same_bits<T, 1, 16>();
    norms_have_the_same_bits<T, 2, 5>();
    norms_have_the_same_bits<T, 7, 50>();
    linear_goes_together<T, 16, 40, 1, true>();
    linear_goes_together<T, 150, 70, 1, false>();
    linear_goes_together<T, 7, 3, 2, true>();
    linear_goes_together<T, 140, 9, 3, false>();
    linear_goes_together<T, 33, 144, 7, true>();
    // One register of columns, of which one row is a lone sum, and many are several.
    linear_goes_together<T, 64, 1, 1, true>();
    linear_goes_together<T, 64, 2, 1, false>();
    linear_goes_together<T, 65, 4, 1, true>();
    linear_goes_together<T, 64, 8, 1, true>();
    linear_goes_together<T, 64, 16, 1, true>();
    linear_goes_together<T, 8, 64, 1, true>();
}

TEST_CASE("Samples of few tokens that go through a kernel together get what they get one by one") {
    SUBCASE("f32") { all_go_together<float>(); }
    SUBCASE("f64") { all_go_together<double>(); }
}

} // namespace
} // namespace kernels_tokens_together_test
