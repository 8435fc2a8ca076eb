// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Layers of tokens on GPUs against the textbook loops, in double.

#include <trireme/device/cuda/device.hpp>
#include <trireme/kernels/blocks/attention.hpp>
#include <trireme/kernels/blocks/embedding.hpp>
#include <trireme/kernels/blocks/layer_norm.hpp>
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

#include "on_gpu.hpp"
#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

using namespace trireme;
using numbers::uniform;
using on_gpu::allowed;
using on_gpu::array;
using on_gpu::distance;
using on_gpu::widened;

namespace cuda_tokens_test {
namespace {

constexpr std::size_t samples = 5;

template<class G, class T, class A = T>
void embedding_matches() {
    CAPTURE(sizeof(A));
    std::size_t const n = samples * G::tokens, values = n * G::width;
    std::vector<T> staged(n);
    for (std::size_t i = 0; i < n; ++i) staged[i] = static_cast<T>(i * i % 7 * (G::vocabulary - 1) / 6);
    auto const w = uniform<T>(0, G::vocabulary * G::width);
    auto const dy = uniform<A>(1, values);
    auto const wide_x = widened(staged), wide_w = widened(w), wide_dy = widened(dy);
    std::vector<double> y(values), dw = wide_w;
    for (std::size_t s = 0; s < samples; ++s) {
        auto const at = s * G::tokens;
        embedding_forward<G, 1>(reference{}, &wide_x[at], wide_w.data(), &y[at * G::width]);
        embedding_backward_weights<G, 1>(reference{}, &wide_x[at], &wide_dy[at * G::width], dw.data());
    }

    on_gpu::staged<cuda_kernels> s(samples, {.count = samples});
    array<T> const at_staged(s.r, staged);
    array<A> const at_x(s.r, std::vector<A>(n)), at_y(s.r, std::vector<A>(values)), at_dy(s.r, dy);
    array<T> const at_w(s.r, w), at_dw(s.r, w);
    convert_tokens<T>(s.k, s.about.data(), reinterpret_cast<std::byte const*>(at_staged.data()), at_x.data(),
                      G::tokens);
    A const *const x = at_x.data(), *const from = at_dy.data();
    T const* const table = at_w.data();
    embedding_forward<G, 1>(s.k, x, table, at_y.data());
    embedding_backward_weights<G, 1>(s.k, x, from, at_dw.data());
    CHECK(distance(at_y.read(), y) < allowed<A>);
    CHECK(distance(at_dw.read(), dw) < allowed<T>);
}

template<class G, class T, class A = T>
void positions_match() {
    CAPTURE(sizeof(A));
    constexpr std::size_t size = G::tokens * G::width;
    auto const x = uniform<A>(0, samples * size), dy = uniform<A>(1, samples * size);
    auto const w = uniform<T>(2, size);
    auto const wide_x = widened(x), wide_dy = widened(dy), wide_w = widened(w);
    std::vector<double> y(x.size()), dw = wide_w;
    for (std::size_t s = 0; s < samples; ++s) {
        learned_positions_forward<G, 1>(reference{}, &wide_x[s * size], wide_w.data(), &y[s * size]);
        learned_positions_backward_weights<G, 1>(reference{}, &wide_dy[s * size], dw.data());
    }

    on_gpu::rank r;
    auto const k = r.policy<cuda_kernels>(samples);
    array<A> const at_x(r, x), at_y(r, x), at_dy(r, dy);
    array<T> const at_w(r, w), at_dw(r, w);
    A const *const from = at_x.data(), *const gradient = at_dy.data();
    T const* const weight = at_w.data();
    learned_positions_forward<G, 1>(k, from, weight, at_y.data());
    learned_positions_backward_weights<G, 1>(k, gradient, at_dw.data());
    CHECK(distance(at_y.read(), y) < allowed<A>);
    CHECK(distance(at_dw.read(), dw) < allowed<T>);
}

template<class G, class T, class A = T>
void layer_norm_matches() {
    CAPTURE(G::width);
    CAPTURE(sizeof(A));
    constexpr std::size_t size = G::tokens * G::width;
    auto const x = uniform<A>(0, samples * size), dy = uniform<A>(1, samples * size);
    auto const w = uniform<T>(2, G::width), b = uniform<T>(3, G::width);
    auto const wide_x = widened(x), wide_dy = widened(dy), wide_w = widened(w), wide_b = widened(b);
    std::vector<double> y(x.size()), dx(x.size()), dw = wide_w, db = wide_b;
    for (std::size_t s = 0; s < samples; ++s) {
        double const *const xs = &wide_x[s * size], *const dys = &wide_dy[s * size];
        layer_norm_forward<G, 1>(reference{}, xs, wide_w.data(), wide_b.data(), 1e-5, &y[s * size]);
        layer_norm_backward_input<G, 1>(reference{}, xs, dys, wide_w.data(), 1e-5, &dx[s * size]);
        layer_norm_backward_weights<G, 1>(reference{}, xs, dys, 1e-5, dw.data(), db.data());
    }

    on_gpu::rank r;
    auto const k = r.policy<cuda_kernels>(samples);
    array<A> const at_x(r, x), at_y(r, x), at_dy(r, dy), at_dx(r, x);
    array<T> const at_w(r, w), at_b(r, b, 1), at_dw(r, w), at_db(r, b, 1);
    A const *const from = at_x.data(), *const gradient = at_dy.data();
    T const *const weight = at_w.data(), *const bias = at_b.data();
    layer_norm_forward<G, 1>(k, from, weight, bias, 1e-5, at_y.data());
    layer_norm_backward_input<G, 1>(k, from, gradient, weight, 1e-5, at_dx.data());
    layer_norm_backward_weights<G, 1>(k, from, gradient, 1e-5, at_dw.data(), at_db.data());
    CHECK(distance(at_y.read(), y) < allowed<A>);
    CHECK(distance(at_dx.read(), dx) < allowed<A>);
    CHECK(distance(at_dw.read(), dw) < allowed<T>);
    CHECK(distance(at_db.read(), db) < allowed<T>);
}

template<class G, class T, class A = T>
void rms_norm_matches() {
    CAPTURE(G::weighted);
    CAPTURE(sizeof(A));
    constexpr std::size_t size = G::tokens * G::width;
    auto const x = uniform<A>(0, samples * size), dy = uniform<A>(1, samples * size);
    auto const w = uniform<T>(2, G::width);
    auto const wide_x = widened(x), wide_dy = widened(dy), wide_w = widened(w);
    std::vector<double> y(x.size()), dx(x.size()), dw = wide_w;
    for (std::size_t s = 0; s < samples; ++s) {
        double const *const xs = &wide_x[s * size], *const dys = &wide_dy[s * size];
        rms_norm_forward<G, 1>(reference{}, xs, wide_w.data(), 1e-5, &y[s * size]);
        rms_norm_backward_input<G, 1>(reference{}, xs, dys, wide_w.data(), 1e-5, &dx[s * size]);
        rms_norm_backward_weights<G, 1>(reference{}, xs, dys, 1e-5, dw.data());
    }

    on_gpu::rank r;
    auto const k = r.policy<cuda_kernels>(samples);
    array<A> const at_x(r, x), at_y(r, x), at_dy(r, dy), at_dx(r, x);
    array<T> const at_w(r, w), at_dw(r, w);
    A const *const from = at_x.data(), *const gradient = at_dy.data();
    T const* const weight = at_w.data();
    rms_norm_forward<G, 1>(k, from, weight, 1e-5, at_y.data());
    rms_norm_backward_input<G, 1>(k, from, gradient, weight, 1e-5, at_dx.data());
    rms_norm_backward_weights<G, 1>(k, from, gradient, 1e-5, at_dw.data());
    CHECK(distance(at_y.read(), y) < allowed<A>);
    CHECK(distance(at_dx.read(), dx) < allowed<A>);
    CHECK(distance(at_dw.read(), dw) < allowed<T>);
}

/// `shift`: so many values stand in front. `draw`: none, or a dropout_draw, for the kernels and, in double, for the
/// loops.
template<class G, class A>
void attention_matches(std::size_t shift, auto const& wide_draw, auto const&... draw) {
    CAPTURE(G::tokens);
    CAPTURE(G::head);
    CAPTURE(sizeof(A));
    constexpr std::size_t in = G::tokens * G::step, out = G::tokens * G::width;
    auto const x = uniform<A>(0, shift + samples * in, 2), dy = uniform<A>(1, shift + samples * out);
    auto const wide_x = widened(x), wide_dy = widened(dy);
    std::vector<double> y = wide_dy, dx = wide_x; // in front of them stands what nobody writes
    for (std::size_t s = 0; s < samples; ++s) {
        std::size_t const at_x = shift + s * in, at_y = shift + s * out;
        wide_draw(s, [&](auto const&... of_sample) {
            attention_forward<G, 1>(reference{}, &wide_x[at_x], &y[at_y], of_sample...);
            attention_backward_input<G, 1>(reference{}, &wide_x[at_x], &y[at_y], &wide_dy[at_y], &dx[at_x],
                                           of_sample...);
        });
    }

    on_gpu::staged<cuda_kernels> s(samples, {.count = samples, .shard = 3, .first = 7, .seed = 11, .step = 5});
    array<A> const at_x(s.r, x), at_y(s.r, dy), at_dy(s.r, dy), at_dx(s.r, x);
    A const *const from = at_x.data() + shift, *const given = at_y.data() + shift,
                   *const gradient = at_dy.data() + shift;
    attention_forward<G, 1>(s.k, from, at_y.data() + shift, draw...);
    attention_backward_input<G, 1>(s.k, from, given, gradient, at_dx.data() + shift, draw...);
    CHECK(distance(at_y.read(), y) < allowed<A>);
    CHECK(distance(at_dx.read(), dx) < 2 * allowed<A>);
}

template<class G, class A>
void whole_attention_matches(std::size_t shift = 0) {
    attention_matches<G, A>(shift, [](std::size_t, auto const& run) { run(); });
}

/// A quarter of the weights is dropped.
template<class G, class A>
void dropped_attention_matches() {
    using T = accumulate_t<A>;
    auto const drawn = []<class N>(N) {
        dropout_draw<N> draw;
        draw.layer = 4;
        draw.threshold = 1u << 30;
        draw.scale = N(4) / N(3);
        return draw;
    };
    attention_matches<G, A>(
        0,
        [&](std::size_t sample, auto const& run) {
            auto draw = drawn(0.0);
            draw.granule = {.seed = 11, .step = 5, .shard = 3, .first = 7 + sample};
            run(draw);
        },
        drawn(T(0)));
}

template<class G, class T, class A = T>
void cross_entropy_matches() {
    CAPTURE(G::width);
    CAPTURE(sizeof(A));
    std::size_t const rows = samples * G::tokens;
    auto const x = uniform<A>(0, rows * G::width, 5);
    auto const weight = uniform<T>(1, samples);
    std::vector<int> targets(rows), correct(samples);
    for (std::size_t i = 0; i < rows; ++i) targets[i] = static_cast<int>(i * 7919 % G::width);
    auto const wide_x = widened(x), wide_weight = widened(weight);
    std::vector<double> dx(x.size()), loss(samples), alone(samples);
    for (std::size_t s = 0; s < samples; ++s) {
        auto const row = s * G::tokens;
        token_cross_entropy<G, 1>(reference{}, &wide_x[row * G::width], &targets[row], &wide_weight[s],
                                  &dx[row * G::width], &loss[s]);
        token_cross_entropy_loss<G, 1>(reference{}, &wide_x[row * G::width], &targets[row], &alone[s], &correct[s]);
    }

    on_gpu::rank r;
    auto const k = r.policy<cuda_kernels>(samples);
    array<A> const at_x(r, x);
    array<T> const at_weight(r, weight), at_loss(r, weight), at_alone(r, weight);
    array<int> const at_targets(r, targets), at_correct(r, std::vector<int>(samples, -1));
    A const* const from = at_x.data();
    T const* const weighed = at_weight.data();
    token_cross_entropy_loss<G, 1>(k, from, at_targets.data(), at_alone.data(), at_correct.data());
    token_cross_entropy<G, 1>(k, from, at_targets.data(), weighed, at_x.data(), at_loss.data()); // in place
    CHECK(distance(at_x.read(), dx) < allowed<A>);
    CHECK(distance(at_loss.read(), loss) < allowed<T>);
    CHECK(distance(at_alone.read(), alone) < allowed<T>);
    CHECK(at_correct.read() == correct);
}

/// A tenth of each target is spread, and each third label is ignored, if Targets ignores -1.
template<class Targets, class G, class T, class A = T>
void soft_cross_entropy_matches() {
    CAPTURE(G::width);
    CAPTURE(Targets::weighs);
    CAPTURE(sizeof(A));
    std::size_t const rows = samples * G::tokens;
    auto const x = uniform<A>(0, rows * G::width, 5);
    auto const weight = uniform<T>(1, samples);
    std::vector<int> labels(rows), correct(samples);
    for (std::size_t i = 0; i < rows; ++i)
        labels[i] = i % 3 == 0 && !Targets::counts(-1) ? -1 : static_cast<int>(i * 7919 % G::width);
    auto const wide_x = widened(x), wide_weight = widened(weight);
    std::vector<double> dx(x.size()), loss(samples), alone(samples);
    for (std::size_t s = 0; s < samples; ++s) {
        auto const row = s * G::tokens;
        token_soft_cross_entropy_gradient<Targets, G, 1>(reference{}, &wide_x[row * G::width], &labels[row],
                                                         &wide_weight[s], &dx[row * G::width], &loss[s]);
        token_soft_cross_entropy<Targets, G, 1>(reference{}, &wide_x[row * G::width], &labels[row], &alone[s],
                                                &correct[s]);
    }

    on_gpu::rank r;
    auto const k = r.policy<cuda_kernels>(samples);
    array<A> const at_x(r, x);
    array<T> const at_weight(r, weight), at_loss(r, weight), at_alone(r, weight);
    array<int> const at_labels(r, labels), at_correct(r, std::vector<int>(samples, -1));
    A const* const from = at_x.data();
    T const* const weighed = at_weight.data();
    token_soft_cross_entropy<Targets, G, 1>(k, from, at_labels.data(), at_alone.data(), at_correct.data());
    token_soft_cross_entropy_gradient<Targets, G, 1>(k, from, at_labels.data(), weighed, at_x.data(), at_loss.data());
    CHECK(distance(at_x.read(), dx) < allowed<A>);
    CHECK(distance(at_loss.read(), loss) < allowed<T>);
    CHECK(distance(at_alone.read(), alone) < allowed<T>);
    CHECK(at_correct.read() == correct);
}

/// Tokens are rows, for block programs as for cuBLASLt.
template<class Policy, class T>
void linear_matches() {
    CAPTURE(Policy::name);
    CAPTURE(sizeof(T));
    using G = linear_geometry<96, 80, 7>;
    std::size_t const in = G::rows * G::inputs, out = G::rows * G::outputs;
    auto const x = uniform<T>(0, samples * in), dy = uniform<T>(1, samples * out);
    auto const w = uniform<T>(2, G::inputs * G::outputs), b = uniform<T>(3, G::outputs);
    auto const wide_x = widened(x), wide_dy = widened(dy), wide_w = widened(w), wide_b = widened(b);
    std::vector<double> y(dy.size()), dx(x.size()), dw = wide_w, db = wide_b;
    for (std::size_t s = 0; s < samples; ++s) {
        linear_forward<G, 1>(reference{}, &wide_x[s * in], wide_w.data(), wide_b.data(), &y[s * out]);
        linear_backward_input<G, 1>(reference{}, wide_w.data(), &wide_dy[s * out], &dx[s * in]);
        linear_backward_weights<G, 1>(reference{}, &wide_x[s * in], &wide_dy[s * out], dw.data(), db.data());
    }

    on_gpu::staged<Policy> s(samples, {.count = samples});
    array<T> const at_x(s.r, x), at_dy(s.r, dy), at_w(s.r, w), at_b(s.r, b), at_y(s.r, dy), at_dx(s.r, x);
    array<T> const at_dw(s.r, w), at_db(s.r, b);
    T const *const from = at_x.data(), *const gradient = at_dy.data();
    T const *const weight = at_w.data(), *const bias = at_b.data();
    linear_forward<G, 1>(s.k, from, weight, bias, at_y.data());
    linear_backward_input<G, 1>(s.k, weight, gradient, at_dx.data());
    linear_backward_weights<G, 1>(s.k, from, gradient, at_dw.data(), at_db.data());
    CHECK(distance(at_y.read(), y) < allowed<T>);
    CHECK(distance(at_dx.read(), dx) < allowed<T>);
    CHECK(distance(at_dw.read(), dw) < allowed<T>);
    CHECK(distance(at_db.read(), db) < allowed<T>);
}

template<class T, class A = T>
void all_layers() {
    embedding_matches<embedding_geometry<11, 9, 20>, T, A>();
    embedding_matches<embedding_geometry<50000, 300, 40>, T, A>();
    positions_match<token_geometry<5, 7>, T, A>();
    layer_norm_matches<token_geometry<70, 24>, T, A>();
    layer_norm_matches<token_geometry<3, 1100>, T, A>();
    rms_norm_matches<rms_norm_geometry<70, 24, true>, T, A>();
    rms_norm_matches<rms_norm_geometry<3, 33, false>, T, A>();
    whole_attention_matches<attention_geometry<70, 15, 3, true>, A>();
    whole_attention_matches<attention_geometry<70, 128, 2, true>, A>();
    whole_attention_matches<attention_geometry<45, 128, 1, false>, A>();
    whole_attention_matches<attention_geometry<150, 128, 2, true>, A>(); // by tensor cores in bf16
    whole_attention_matches<attention_geometry<70, 48, 1, false>, A>(1); // off round addresses
    dropped_attention_matches<attention_geometry<70, 32, 2, true>, A>();
    dropped_attention_matches<attention_geometry<45, 15, 3, true>, A>();
    cross_entropy_matches<token_geometry<6, 10>, T, A>();
    cross_entropy_matches<token_geometry<300, 65>, T, A>();
    cross_entropy_matches<token_geometry<2, 5000>, T, A>();
    cross_entropy_matches<token_geometry<2, 40001>, T, A>();
    soft_cross_entropy_matches<soft_targets<65, 10, void, -1>, token_geometry<300, 65>, T, A>();
    soft_cross_entropy_matches<soft_targets<10, 10, void, no_label>, token_geometry<6, 10>, T, A>();
    linear_matches<cuda_block_kernels, A>();
    linear_matches<cuda_library_kernels, A>();
}

} // namespace

TEST_SUITE("cuda/tokens") {
    TEST_CASE("layers of tokens in float") { all_layers<float>(); }
    TEST_CASE("layers of tokens in double") { all_layers<double>(); }
    TEST_CASE("layers of tokens in bf16, with parameters in float") { all_layers<float, bf16>(); }
}

} // namespace cuda_tokens_test
