// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Layers of tokens: all of a shard's samples by block programs, and one after the other by the reference.

#include <trireme/kernels/blocks/attention.hpp>
#include <trireme/kernels/blocks/embedding.hpp>
#include <trireme/kernels/blocks/layer_norm.hpp>
#include <trireme/kernels/blocks/linear.hpp>
#include <trireme/kernels/blocks/rms_norm.hpp>
#include <trireme/kernels/blocks/samples.hpp>
#include <trireme/kernels/blocks/token_cross_entropy.hpp>
#include <trireme/kernels/blocks/token_soft_cross_entropy.hpp>
#include <trireme/kernels/reference/attention.hpp>
#include <trireme/kernels/reference/embedding.hpp>
#include <trireme/kernels/reference/layer_norm.hpp>
#include <trireme/kernels/reference/linear.hpp>
#include <trireme/kernels/reference/rms_norm.hpp>
#include <trireme/kernels/reference/token_cross_entropy.hpp>
#include <trireme/kernels/reference/token_soft_cross_entropy.hpp>
#include <trireme/kernels/soft_targets.hpp>

#include <kernels/blocks/rig.hpp>
#include <kernels/cases.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <vector>

namespace blocks_tokens_test {
using namespace trireme;
using namespace blocks_test;
using kernel_cases::some_weights;

namespace {

constexpr std::size_t enough = 1 << 20;

/// Parameters stay wide where values are narrow.
template<class A>
using parameter = accumulate_t<A>;

/// Tokens as block programs take them, and as the reference does: some stand more than once, most nowhere.
template<class A>
struct tokens_of {
    std::vector<A> narrow;
    std::vector<parameter<A>> wide;

    tokens_of(std::size_t n, std::size_t vocabulary) {
        random_stream const random(numbers::seed(), random_purpose::user, 9);
        for (std::size_t i = 0; i < n; ++i) {
            auto const last = static_cast<std::uint32_t>(vocabulary - 1);
            auto const token = i % 3 == 0 ? last : random.below(i, last + 1);
            narrow.push_back(blocks::token_as<A>(token));
            wide.push_back(static_cast<parameter<A>>(token));
        }
    }
};

template<class G, class A>
void embedding_equals_reference(std::size_t samples) {
    CAPTURE(G::vocabulary);
    CAPTURE(G::tokens);
    CAPTURE(G::width);
    CAPTURE(samples);
    CAPTURE(sizeof(A));
    using T = parameter<A>;
    std::size_t const n = samples * G::tokens;
    tokens_of<A> const x(n, G::vocabulary);
    auto const w = uniform<T>(0, G::vocabulary * G::width);
    auto const dy = uniform<A>(1, n * G::width);
    auto const wide_dy = wide(dy);
    auto y = unset<A>(dy.size());
    auto dw = w;
    CHECK(same_in_every_order(samples, 0, y, [&](rehearsal_kernels const& k) {
        embedding_forward<G, 1>(k, x.narrow.data(), w.data(), y.data());
    }));
    CHECK(same_in_every_order(samples, n * sizeof(std::uint32_t), dw, [&](rehearsal_kernels const& k) {
        embedding_backward_weights<G, 1>(k, x.narrow.data(), dy.data(), dw.data());
    }));
    std::vector<T> wanted(y.size());
    auto sums = w;
    for (std::size_t s = 0; s < samples; ++s) {
        auto const at = s * G::tokens;
        embedding_forward<G, 1>(reference{}, x.wide.data() + at, w.data(), wanted.data() + at * G::width);
        embedding_backward_weights<G, 1>(reference{}, x.wide.data() + at, wide_dy.data() + at * G::width, sums.data());
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(y[i] == static_cast<A>(wanted[i]));
    CHECK(dw == sums); // one after the other, as there
}

template<class G, class A>
void positions_equal_reference(std::size_t samples) {
    CAPTURE(G::tokens);
    CAPTURE(G::width);
    CAPTURE(samples);
    CAPTURE(sizeof(A));
    using T = parameter<A>;
    std::size_t const size = G::tokens * G::width;
    auto const x = uniform<A>(0, samples * size), dy = uniform<A>(1, samples * size);
    auto const w = uniform<T>(2, size), wide_x = wide(x), wide_dy = wide(dy);
    auto y = unset<A>(x.size());
    auto dw = w;
    CHECK(same_in_every_order(samples, 0, y, [&](rehearsal_kernels const& k) {
        learned_positions_forward<G, 1>(k, x.data(), w.data(), y.data());
    }));
    CHECK(same_in_every_order(samples, 0, dw, [&](rehearsal_kernels const& k) {
        learned_positions_backward_weights<G, 1>(k, dy.data(), dw.data());
    }));
    std::vector<T> wanted(x.size());
    auto sums = w;
    for (std::size_t s = 0; s < samples; ++s) {
        learned_positions_forward<G, 1>(reference{}, wide_x.data() + s * size, w.data(), wanted.data() + s * size);
        learned_positions_backward_weights<G, 1>(reference{}, wide_dy.data() + s * size, sums.data());
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(y[i] == static_cast<A>(wanted[i]));
    CHECK(dw == sums);
}

template<class G, class A>
void layer_norm_equals_reference(std::size_t samples, double offset = 0, std::size_t scratch = enough) {
    CAPTURE(G::tokens);
    CAPTURE(G::width);
    CAPTURE(samples);
    CAPTURE(offset);
    CAPTURE(scratch);
    CAPTURE(sizeof(A));
    using T = parameter<A>;
    std::size_t const size = G::tokens * G::width;
    auto x = uniform<A>(0, samples * size);
    for (auto& value : x) value = static_cast<A>(static_cast<T>(value) + static_cast<T>(offset));
    auto const dy = uniform<A>(1, samples * size);
    auto const w = uniform<T>(2, G::width), b = uniform<T>(3, G::width), wide_x = wide(x), wide_dy = wide(dy);
    auto y = unset<A>(x.size()), dx = y;
    CHECK(same_in_every_order(samples, 0, y, [&](rehearsal_kernels const& k) {
        layer_norm_forward<G, 1>(k, x.data(), w.data(), b.data(), 1e-5, y.data());
    }));
    CHECK(same_in_every_order(samples, 0, dx, [&](rehearsal_kernels const& k) {
        layer_norm_backward_input<G, 1>(k, x.data(), dy.data(), w.data(), 1e-5, dx.data());
    }));
    auto in_place = dy;
    rehearse(1, samples, 0, [&](rehearsal_kernels const& k) {
        layer_norm_backward_input<G, 1>(k, x.data(), static_cast<A const*>(in_place.data()), w.data(), 1e-5,
                                        in_place.data());
    });
    CHECK(std::memcmp(in_place.data(), dx.data(), dx.size() * sizeof(A)) == 0);
    auto sums = uniform<T>(4, 2 * G::width), wanted_sums = sums;
    CHECK(same_in_every_order(samples, scratch, sums, [&](rehearsal_kernels const& k) {
        layer_norm_backward_weights<G, 1>(k, x.data(), dy.data(), 1e-5, sums.data(), sums.data() + G::width);
    }));
    std::vector<T> wanted_y(x.size()), wanted_dx(x.size());
    for (std::size_t s = 0; s < samples; ++s) {
        auto const at = s * size;
        layer_norm_forward<G, 1>(reference{}, wide_x.data() + at, w.data(), b.data(), 1e-5, wanted_y.data() + at);
        layer_norm_backward_input<G, 1>(reference{}, wide_x.data() + at, wide_dy.data() + at, w.data(), 1e-5,
                                        wanted_dx.data() + at);
        layer_norm_backward_weights<G, 1>(reference{}, wide_x.data() + at, wide_dy.data() + at, 1e-5,
                                          wanted_sums.data(), wanted_sums.data() + G::width);
    }
    auto const terms = 16 * G::width * static_cast<std::size_t>(1 + offset * offset);
    CHECK(apart(y, wanted_y, terms) <= 1);
    CHECK(apart(dx, wanted_dx, terms) <= 1);
    CHECK(numbers::apart(sums, wanted_sums, terms * G::tokens * samples) <= 1);
}

template<class G, class A>
void rms_norm_equals_reference(std::size_t samples) {
    CAPTURE(G::tokens);
    CAPTURE(G::width);
    CAPTURE(G::weighted);
    CAPTURE(samples);
    CAPTURE(sizeof(A));
    using T = parameter<A>;
    std::size_t const size = G::tokens * G::width;
    auto const x = uniform<A>(0, samples * size), dy = uniform<A>(1, samples * size);
    auto const weights = uniform<T>(2, G::width), wide_x = wide(x), wide_dy = wide(dy);
    T const* const w = G::weighted ? weights.data() : nullptr;
    auto y = unset<A>(x.size()), dx = y;
    auto dw = weights, wanted_dw = weights;
    CHECK(same_in_every_order(
        samples, 0, y, [&](rehearsal_kernels const& k) { rms_norm_forward<G, 1>(k, x.data(), w, 1e-5, y.data()); }));
    CHECK(same_in_every_order(samples, 0, dx, [&](rehearsal_kernels const& k) {
        rms_norm_backward_input<G, 1>(k, x.data(), dy.data(), w, 1e-5, dx.data());
    }));
    CHECK(same_in_every_order(samples, G::width * sizeof(T), dw, [&](rehearsal_kernels const& k) {
        rms_norm_backward_weights<G, 1>(k, x.data(), dy.data(), 1e-5, dw.data());
    }));
    std::vector<T> wanted_y(x.size()), wanted_dx(x.size());
    for (std::size_t s = 0; s < samples; ++s) {
        auto const at = s * size;
        rms_norm_forward<G, 1>(reference{}, wide_x.data() + at, w, 1e-5, wanted_y.data() + at);
        rms_norm_backward_input<G, 1>(reference{}, wide_x.data() + at, wide_dy.data() + at, w, 1e-5,
                                      wanted_dx.data() + at);
        rms_norm_backward_weights<G, 1>(reference{}, wide_x.data() + at, wide_dy.data() + at, 1e-5, wanted_dw.data());
    }
    CHECK(apart(y, wanted_y, 16 * G::width) <= 1);
    CHECK(apart(dx, wanted_dx, 16 * G::width) <= 1);
    CHECK(numbers::apart(dw, wanted_dw, 16 * size * samples) <= 1);
}

template<class G, class A>
void attention_equals_reference(std::size_t samples, double size = 1, std::size_t scratch = enough,
                                std::size_t shift = 0) {
    CAPTURE(G::tokens);
    CAPTURE(G::heads);
    CAPTURE(G::head);
    CAPTURE(G::causal);
    CAPTURE(samples);
    CAPTURE(scratch);
    CAPTURE(sizeof(A));
    using T = parameter<A>;
    constexpr std::size_t in = G::tokens * G::step, out = G::tokens * G::width;
    // values of nobody stand in front, and move the others off round addresses
    auto const x = uniform<A>(0, shift + samples * in, size), dy = uniform<A>(1, shift + samples * out);
    auto const wide_x = wide(x), wide_dy = wide(dy);
    auto y = unset<A>(dy.size()), dx = unset<A>(x.size());
    for (std::size_t i = 0; i < shift; ++i) y[i] = dx[i] = A{};
    CHECK(same_in_every_order(samples, 0, y, [&](rehearsal_kernels const& k) {
        attention_forward<G, 1>(k, x.data() + shift, y.data() + shift);
    }));
    CHECK(same_in_every_order(samples, scratch, dx, [&](rehearsal_kernels const& k) {
        attention_backward_input<G, 1>(k, x.data() + shift, static_cast<A const*>(y.data() + shift), dy.data() + shift,
                                       dx.data() + shift);
    }));
    std::vector<T> wanted_y(y.size()), wanted_dx(dx.size());
    for (std::size_t s = 0; s < samples; ++s) {
        std::size_t const at_x = shift + s * in, at_y = shift + s * out;
        attention_forward<G, 1>(reference{}, wide_x.data() + at_x, wanted_y.data() + at_y);
        attention_backward_input<G, 1>(reference{}, wide_x.data() + at_x, wanted_y.data() + at_y, wide_dy.data() + at_y,
                                       wanted_dx.data() + at_x);
    }
    auto const terms = 8 * (G::tokens + G::head) * static_cast<std::size_t>(1 + size * size * size);
    CHECK(apart(y, wanted_y, terms) <= 1);
    CHECK(apart(dx, wanted_dx, terms) <= 1);
}

/// Weights are drawn by the number of a sample in its shard, whatever samples come before it here.
template<class G, class A>
void dropped_attention_equals_reference(std::size_t samples, std::size_t scratch = enough) {
    CAPTURE(G::tokens);
    CAPTURE(samples);
    CAPTURE(sizeof(A));
    using T = parameter<A>;
    constexpr std::size_t in = G::tokens * G::step, out = G::tokens * G::width;
    auto const x = uniform<A>(0, samples * in), dy = uniform<A>(1, samples * out);
    auto const wide_x = wide(x), wide_dy = wide(dy);
    staged_shard about;
    about.seed = 11;
    about.step = 5;
    about.shard = 3;
    about.first = 7;
    dropout_draw<T> draw;
    draw.layer = 4;
    draw.threshold = 3u << 30; // three quarters are dropped
    draw.scale = 4;
    auto y = unset<A>(dy.size()), dx = unset<A>(x.size());
    CHECK(same_in_every_order(samples, 0, y, [&](rehearsal_kernels k) {
        k.set_shard(&about);
        attention_forward<G, 1>(k, x.data(), y.data(), draw);
    }));
    CHECK(same_in_every_order(samples, scratch, dx, [&](rehearsal_kernels k) {
        k.set_shard(&about);
        attention_backward_input<G, 1>(k, x.data(), static_cast<A const*>(y.data()), dy.data(), dx.data(), draw);
    }));
    std::vector<T> wanted_y(y.size()), wanted_dx(dx.size());
    draw.granule.seed = about.seed;
    draw.granule.step = about.step;
    draw.granule.shard = about.shard;
    for (std::size_t s = 0; s < samples; ++s) {
        draw.granule.first = static_cast<std::size_t>(about.first) + s;
        attention_forward<G, 1>(reference{}, wide_x.data() + s * in, wanted_y.data() + s * out, draw);
        attention_backward_input<G, 1>(reference{}, wide_x.data() + s * in, wanted_y.data() + s * out,
                                       wide_dy.data() + s * out, wanted_dx.data() + s * in, draw);
    }
    auto const terms = 128 * (G::tokens + G::head); // those that are kept are four times as large
    CHECK(apart(y, wanted_y, terms) <= 1);
    CHECK(apart(dx, wanted_dx, terms) <= 1);
}

template<class G, class A>
void cross_entropy_equals_reference(std::size_t samples) {
    CAPTURE(G::tokens);
    CAPTURE(G::width);
    CAPTURE(samples);
    CAPTURE(sizeof(A));
    using T = parameter<A>;
    std::size_t const rows = samples * G::tokens;
    auto x = uniform<A>(0, rows * G::width, 5);
    auto const weight = uniform<T>(1, samples);
    std::vector<int> targets(rows);
    for (std::size_t i = 0; i < rows; ++i) {
        targets[i] = static_cast<int>((5 * i + 1) % G::width);
        if (i % 3 == 0) x[i * G::width + static_cast<std::size_t>(targets[i])] = static_cast<A>(T(9)); // right
        if (i % 6 == 0) x[i * G::width] = static_cast<A>(T(9)); // and so is the first
    }
    auto dx = unset<A>(x.size());
    std::vector<T> loss(samples), alone(samples);
    std::vector<int> correct(samples, -1);
    auto const scratch = rows * 2 * sizeof(T);
    CHECK(same_in_every_order(samples, scratch, dx, [&](rehearsal_kernels const& k) {
        token_cross_entropy<G, 1>(k, x.data(), targets.data(), weight.data(), dx.data(), loss.data());
    }));
    CHECK(same_in_every_order(samples, scratch, alone, [&](rehearsal_kernels const& k) {
        token_cross_entropy_loss<G, 1>(k, x.data(), targets.data(), alone.data(), correct.data());
    }));
    CHECK(alone == loss);
    auto const wide_x = wide(x);
    std::vector<T> wanted(x.size()), wanted_loss(samples);
    std::vector<int> wanted_correct(samples);
    for (std::size_t s = 0; s < samples; ++s) {
        auto const at = s * G::tokens;
        token_cross_entropy<G, 1>(reference{}, wide_x.data() + at * G::width, targets.data() + at, weight.data() + s,
                                  wanted.data() + at * G::width, wanted_loss.data() + s);
        token_cross_entropy_loss<G, 1>(reference{}, wide_x.data() + at * G::width, targets.data() + at,
                                       wanted_loss.data() + s, wanted_correct.data() + s);
    }
    CHECK(apart(dx, wanted, 16 + G::width) <= 1);
    CHECK(numbers::apart(loss, wanted_loss, 16 * (G::width + G::tokens)) <= 1);
    CHECK(correct == wanted_correct);
    rehearse(1, samples, scratch, [&](rehearsal_kernels const& k) {
        token_cross_entropy<G, 1>(k, static_cast<A const*>(x.data()), targets.data(), weight.data(), x.data(),
                                  loss.data());
    });
    CHECK(std::memcmp(x.data(), dx.data(), dx.size() * sizeof(A)) == 0); // in place
    CHECK(loss == alone);
}

/// Some labels are ignored, if Targets ignores -1.
template<class Targets, class G, class A>
void soft_cross_entropy_equals_reference(std::size_t samples) {
    CAPTURE(G::tokens);
    CAPTURE(G::width);
    CAPTURE(Targets::weighs);
    CAPTURE(samples);
    CAPTURE(sizeof(A));
    using T = parameter<A>;
    std::size_t const rows = samples * G::tokens;
    auto x = uniform<A>(0, rows * G::width, 5);
    auto const weight = uniform<T>(1, samples);
    std::vector<int> labels(rows);
    for (std::size_t i = 0; i < rows; ++i) {
        labels[i] = static_cast<int>((5 * i + 1) % G::width);
        if (i % 3 == 0) x[i * G::width + static_cast<std::size_t>(labels[i])] = static_cast<A>(T(9)); // right
        if (i % 4 == 0 && !Targets::counts(-1)) labels[i] = -1;
    }
    auto dx = unset<A>(x.size());
    std::vector<T> loss(samples), alone(samples);
    std::vector<int> correct(samples, -1);
    CHECK(same_in_every_order(samples, enough, dx, [&](rehearsal_kernels const& k) {
        token_soft_cross_entropy_gradient<Targets, G, 1>(k, x.data(), labels.data(), weight.data(), dx.data(),
                                                         loss.data());
    }));
    CHECK(same_in_every_order(samples, enough, alone, [&](rehearsal_kernels const& k) {
        token_soft_cross_entropy<Targets, G, 1>(k, x.data(), labels.data(), alone.data(), correct.data());
    }));
    CHECK(alone == loss);
    auto const wide_x = wide(x);
    std::vector<T> wanted(x.size()), wanted_loss(samples);
    std::vector<int> wanted_correct(samples);
    for (std::size_t s = 0; s < samples; ++s) {
        auto const at = s * G::tokens;
        token_soft_cross_entropy<Targets, G, 1>(reference{}, wide_x.data() + at * G::width, labels.data() + at,
                                                wanted_loss.data() + s, wanted_correct.data() + s);
        token_soft_cross_entropy_gradient<Targets, G, 1>(reference{}, wide_x.data() + at * G::width, labels.data() + at,
                                                         weight.data() + s, wanted.data() + at * G::width,
                                                         wanted_loss.data() + s);
    }
    CHECK(apart(dx, wanted, 16 * (G::width + G::tokens)) <= 1);
    CHECK(numbers::apart(loss, wanted_loss, 64 * (G::width + G::tokens) * G::tokens) <= 1);
    CHECK(correct == wanted_correct);
    rehearse(1, samples, enough, [&](rehearsal_kernels const& k) {
        token_soft_cross_entropy_gradient<Targets, G, 1>(k, static_cast<A const*>(x.data()), labels.data(),
                                                         weight.data(), x.data(), loss.data());
    });
    CHECK(std::memcmp(x.data(), dx.data(), dx.size() * sizeof(A)) == 0); // in place
    CHECK(loss == alone);
}

/// Tokens are rows: samples of so many rows are as many samples of one.
template<class In, std::size_t Rows, class T>
void linear_is_that_of_rows(std::size_t samples) {
    CAPTURE(Rows);
    CAPTURE(samples);
    using G = linear_geometry<In::inputs, In::outputs, Rows>;
    std::size_t const rows = samples * Rows;
    auto const x = uniform<T>(0, rows * G::inputs), w = uniform<T>(1, G::inputs * G::outputs);
    auto const b = uniform<T>(2, G::outputs), dy = uniform<T>(3, rows * G::outputs);
    auto const run = [&]<class Geometry>(Geometry, std::size_t n) {
        auto all = unset<T>(rows * (G::outputs + G::inputs));
        all.insert(all.end(), w.begin(), w.end());
        all.insert(all.end(), b.begin(), b.end());
        T *const y = all.data(), *const dx = y + rows * G::outputs, *const dw = dx + rows * G::inputs;
        rehearse(1, n, enough, [&](rehearsal_kernels const& k) {
            linear_forward<Geometry, 1>(k, x.data(), w.data(), b.data(), y);
            linear_backward_input<Geometry, 1>(k, w.data(), dy.data(), dx);
            linear_backward_weights<Geometry, 1>(k, x.data(), dy.data(), dw, dw + w.size());
        });
        return all;
    };
    CHECK(run(G{}, samples) == run(In{}, rows));
}

template<class A>
void all_kernels() {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    for (std::size_t const samples : std::initializer_list<std::size_t>{1, 3}) {
        embedding_equals_reference<embedding_geometry<11, 9, 20>, A>(samples);
        embedding_equals_reference<embedding_geometry<2, 37, 3>, A>(samples); // many equal tokens
        positions_equal_reference<token_geometry<5, 7>, A>(samples);
        layer_norm_equals_reference<token_geometry<3, 16>, A>(samples);
        layer_norm_equals_reference<token_geometry<5, 37>, A>(samples);
        layer_norm_equals_reference<token_geometry<2, 3>, A>(samples);
        rms_norm_equals_reference<rms_norm_geometry<5, 37, true>, A>(samples);
        rms_norm_equals_reference<rms_norm_geometry<9, 8, false>, A>(samples);
        attention_equals_reference<attention_geometry<8, 16, 4, true>, A>(samples);
        attention_equals_reference<attention_geometry<37, 15, 3, true>, A>(samples);
        attention_equals_reference<attention_geometry<37, 15, 3, false>, A>(samples);
        attention_equals_reference<attention_geometry<1, 4, 1, true>, A>(samples);
        cross_entropy_equals_reference<token_geometry<6, 10>, A>(samples);
        cross_entropy_equals_reference<token_geometry<3, 65>, A>(samples);
        soft_cross_entropy_equals_reference<soft_targets<5, 10, some_weights<5>, -1>, token_geometry<9, 5>, A>(samples);
        soft_cross_entropy_equals_reference<soft_targets<70, 0, void, -1>, token_geometry<5, 70>, A>(samples);
        soft_cross_entropy_equals_reference<soft_targets<70, 20, void, no_label>, token_geometry<5, 70>, A>(samples);
        linear_is_that_of_rows<linear_geometry<17, 3>, 5, A>(samples);
    }
    embedding_equals_reference<embedding_geometry<40000, 700, 5>, A>(3); // more tokens than a chunk
    positions_equal_reference<token_geometry<3, 8>, A>(19);
    layer_norm_equals_reference<token_geometry<2, 128>, A>(2, 30);
    layer_norm_equals_reference<token_geometry<3, 1100>, A>(3); // more values than 32 threads take
    layer_norm_equals_reference<token_geometry<20, 8>, A>(40, 0, 3 * 16 * sizeof(parameter<A>)); // few partial sums
    // tensor cores take these in bf16
    attention_equals_reference<attention_geometry<150, 32, 2, true>, A>(2);
    attention_equals_reference<attention_geometry<70, 48, 1, false>, A>(1);
    attention_equals_reference<attention_geometry<64, 64, 1, true>, A>(2);
    attention_equals_reference<attention_geometry<70, 48, 1, false>, A>(1, 1, enough, 1);
    dropped_attention_equals_reference<attention_geometry<70, 16, 1, true>, A>(2);
    attention_equals_reference<attention_geometry<70, 64, 1, true>, A>(2);
    attention_equals_reference<attention_geometry<35, 256, 2, true>, A>(1);  // smaller tiles
    attention_equals_reference<attention_geometry<35, 300, 1, false>, A>(1); // still smaller ones
    // queries and keys far apart, and room for two samples at a time; y is rounded before dy y is taken
    double const large = std::is_same_v<A, bf16> ? 2 : 6;
    attention_equals_reference<attention_geometry<20, 8, 2, true>, A>(5, large, 2 * 40 * 2 * sizeof(parameter<A>));
    dropped_attention_equals_reference<attention_geometry<37, 15, 3, true>, A>(2);
    dropped_attention_equals_reference<attention_geometry<9, 4, 1, false>, A>(5, 2 * 9 * 2 * sizeof(parameter<A>));
    cross_entropy_equals_reference<token_geometry<300, 4>, A>(2); // more tokens than threads
    cross_entropy_equals_reference<token_geometry<2, 5000>, A>(2);
    cross_entropy_equals_reference<token_geometry<1, 40001>, A>(2); // in float threads read their logits again
}

} // namespace

TEST_SUITE("kernels/blocks/tokens") {
    TEST_CASE_TEMPLATE("blocks equal the reference, whatever the numbers of tokens, heads and values", A, float, double,
                       bf16) {
        all_kernels<A>();
    }

    TEST_CASE("tokens keep their numbers in bf16, and those of samples that do not count are the first") {
        std::vector<float> const staged{3, 255, 65535, 1, -7, std::numeric_limits<float>::quiet_NaN()};
        std::vector<std::uint8_t> const bytes{3, 255, 0, 1, 9, 9};
        staged_shard about;
        about.count = 2;
        auto const converted = [&](bool as_bytes) {
            about.bytes = as_bytes;
            std::vector<bf16> x(6);
            auto const* const from = as_bytes ? static_cast<void const*>(bytes.data()) : staged.data();
            rehearse(1, 3, 0, [&](rehearsal_kernels const& k) {
                convert_tokens<float>(k, &about, static_cast<std::byte const*>(from), x.data(), 2);
            });
            std::vector<blocks::u32> numbers;
            for (bf16 const token : x) numbers.push_back(blocks::number_of(token));
            return numbers;
        };
        CHECK(converted(false) == std::vector<blocks::u32>{3, 255, 65535, 1, 0, 0});
        CHECK(converted(true) == std::vector<blocks::u32>{3, 255, 0, 1, 0, 0});
    }

    TEST_CASE("without room in the workspace nothing is launched, and the message says how much is wanted") {
        std::vector<float> x(12), y(4), dy(4);
        auto const refuses = [&](char const* text, auto const& f) {
            CHECK_THROWS_WITH_AS(rehearse(0, 1, 7, f), doctest::Contains(text), usage_error);
        };
        refuses("sorting 4 tokens needs 16 bytes of workspace, and has 7", [&](rehearsal_kernels const& k) {
            embedding_backward_weights<embedding_geometry<2, 4, 1>, 1>(k, x.data(), dy.data(), y.data());
        });
        refuses("a norm over 1 values needs 8 bytes", [&](rehearsal_kernels const& k) {
            layer_norm_backward_weights<token_geometry<4, 1>, 1>(k, x.data(), dy.data(), 1e-5, y.data(), y.data());
        });
        refuses("attention over 4 tokens needs 32 bytes", [&](rehearsal_kernels const& k) {
            attention_backward_input<attention_geometry<4, 1, 1, true>, 1>(k, x.data(), y.data(), dy.data(), x.data());
        });
        refuses("cross_entropy of 4 tokens needs 32 bytes", [&](rehearsal_kernels const& k) {
            int const targets[4] = {};
            token_cross_entropy<token_geometry<4, 1>, 1>(k, x.data(), targets, dy.data(), x.data(), y.data());
        });
    }
}

} // namespace blocks_tokens_test
