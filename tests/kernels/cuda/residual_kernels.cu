// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The kernels of residual networks (batch norm, sums, dropout, means of channels) against the textbook loops, in
// double.

#include <trireme/device/cuda/device.hpp>
#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/blocks/add.hpp>
#include <trireme/kernels/blocks/batch_norm.hpp>
#include <trireme/kernels/blocks/dropout.hpp>
#include <trireme/kernels/blocks/pool2d.hpp>
#include <trireme/kernels/blocks/samples.hpp>
#include <trireme/kernels/reference/add.hpp>
#include <trireme/kernels/reference/batch_norm.hpp>
#include <trireme/kernels/reference/dropout.hpp>
#include <trireme/kernels/reference/pool2d.hpp>

#include "on_gpu.hpp"
#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace trireme;
using on_gpu::allowed;
using on_gpu::applied;
using on_gpu::array;
using on_gpu::distance;
using on_gpu::sloped;
using on_gpu::staged;
using on_gpu::widened;

namespace cuda_test {

/// [sample][value], as accelerators have it, of [value][sample], as granules of the host have it.
template<class T>
std::vector<double> by_sample(std::vector<T> const& values, std::size_t samples) {
    std::size_t const size = values.size() / samples;
    std::vector<double> to(values.size());
    for (std::size_t n = 0; n < samples; ++n)
        for (std::size_t i = 0; i < size; ++i) to[n * size + i] = static_cast<double>(values[i * samples + n]);
    return to;
}
template<class T>
std::vector<double> by_value(std::vector<T> const& values, std::size_t samples) {
    return by_sample(values, values.size() / samples);
}

/// The first `count` of `Samples` samples.
template<class Policy, class G, std::size_t Samples, class T>
void batch_norm_matches(std::size_t count) {
    CAPTURE(Policy::name);
    CAPTURE(G::channels);
    CAPTURE(G::positions);
    CAPTURE(count);
    CAPTURE(sizeof(T));
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    constexpr std::size_t C = G::channels, size = C * G::positions;
    constexpr double epsilon = 1e-5, share = 0.75;
    auto const x = numbers::uniform<T>(0, Samples * size, 3), dy = numbers::uniform<T>(1, Samples * size);
    auto const weight = numbers::uniform<T>(2, C), bias = numbers::uniform<T>(3, C);
    auto const host_x = by_value(x, Samples), host_dy = by_value(dy, Samples);
    auto const wide_weight = widened(weight), wide_bias = widened(bias);
    std::vector<double> kept(2 * C), statistics(2 * C), variance(C), y(Samples * size), dx(y), means(2 * C),
        gradients(2 * C);
    batch_norm_numbers<double> const host{.granule = {.count = count},
                                          .mean = kept.data(),
                                          .deviation = kept.data() + C,
                                          .sums = means.data(),
                                          .weight = wide_weight.data(),
                                          .bias = wide_bias.data()};
    batch_norm_gather<G, Samples>(reference{}, host_x.data(), host);
    double const values = static_cast<double>(count * G::positions);
    for (std::size_t c = 0; c < C; ++c) {
        variance[c] = kept[C + c] / values;
        statistics[c] = 1 + share * kept[c];
        statistics[C + c] = 1 + share * variance[c] * values / (values - 1);
        kept[C + c] = 1 / std::sqrt(variance[c] + epsilon);
    }
    batch_norm_forward<G, Samples>(reference{}, host_x.data(), host, y.data());
    batch_norm_backward_gather<G, Samples>(reference{}, host_x.data(), host_dy.data(), host);
    for (std::size_t c = 0; c < C; ++c) {
        gradients[c] = 1 + means[C + c];
        gradients[C + c] = 1 + means[c];
        means[c] /= values;
        means[C + c] /= values;
    }
    batch_norm_backward_input<G, Samples>(reference{}, host_x.data(), host_dy.data(), host, dx.data());
    y = by_sample(y, Samples);
    dx = by_sample(dx, Samples);

    staged<Policy> s(Samples, {static_cast<std::uint32_t>(count), 0, 0, 0, 0, share});
    array<T> const at_x(s.r, x), at_dy(s.r, dy), at_weight(s.r, weight, 1), at_bias(s.r, bias, 1);
    array<T> const at_kept(s.r, numbers::unset<T>(2 * C)), at_means(s.r, numbers::unset<T>(2 * C));
    array<T> const at_statistics(s.r, std::vector<T>(2 * C, T(1)), 1), at_gradients(s.r, at_statistics.read(), 1);
    array<T> const at_variance(s.r, std::vector<T>(variance.begin(), variance.end()));
    array<T> const to(s.r, numbers::unset<T>(Samples * size));
    auto const left = [&](auto&& run) {
        to.write(numbers::unset<T>(Samples * size));
        run(to.data());
        return to.read();
    };
    T const *const px = at_x.data(), *const pdy = at_dy.data();
    batch_norm_numbers<T> const there{.mean = at_kept.data(),
                                      .deviation = at_kept.data() + C,
                                      .sums = at_means.data(),
                                      .weight = at_weight.data(),
                                      .bias = at_bias.data(),
                                      .weight_gradient = at_gradients.data(),
                                      .bias_gradient = at_gradients.data() + C,
                                      .statistics = at_statistics.data(),
                                      .epsilon = epsilon};
    batch_norm_gather<G, 1>(s.k, px, there);
    batch_norm_agree<G, false>(s.k, there, 0);
    CHECK(distance(at_kept.read(), kept) < allowed<T>);
    CHECK(distance(at_statistics.read(), statistics) < allowed<T>);
    auto const first = at_kept.read();
    batch_norm_gather<G, 1>(s.k, px, there);
    batch_norm_agree<G, false>(s.k, there, 0);
    CHECK(at_kept.read() == first); // the same bits

    auto const both = [&](auto const& k) {
        CHECK(distance(left([&](T* out) { batch_norm_forward<G, 1>(k, px, there, out); }), y) < allowed<T>);
        CHECK(distance(left([&](T* out) {
                           batch_norm_evaluate<G, 1>(k, px, static_cast<T const*>(at_kept.data()),
                                                     static_cast<T const*>(at_variance.data()), there, out);
                       }),
                       y) < allowed<T>);
    };
    both(s.k);
    y = applied<sigmoid_function>(y);
    both(with_function<Policy, sigmoid_function, T>(s.k));

    batch_norm_backward_gather<G, 1>(s.k, px, pdy, there);
    batch_norm_backward_agree<G, false>(s.k, there, 0);
    CHECK(distance(at_means.read(), means) < 10 * allowed<T>);
    CHECK(distance(at_gradients.read(), gradients) < allowed<T>);
    auto const backward = [&](auto const& k) {
        return left([&](T* out) { batch_norm_backward_input<G, 1>(k, px, pdy, there, out); });
    };
    CHECK(distance(backward(s.k), dx) < allowed<T>);
    CHECK(distance(backward(with_function<Policy, sigmoid_function, T>(s.k, px)),
                   sloped<sigmoid_function>(dx, widened(x))) < allowed<T>);
}

template<class Policy, class T>
void sums_and_drops_match() {
    CAPTURE(Policy::name);
    CAPTURE(sizeof(T));
    constexpr std::size_t samples = 65, size = 107;
    auto const a = numbers::uniform<T>(0, samples * size), b = numbers::uniform<T>(1, samples * size);
    auto const wide_a = widened(a), wide_b = widened(b);
    std::vector<double> sum(a.size()), dropped(a.size()), running(a.size());
    add_values(reference{}, wide_a.data(), wide_b.data(), sum.data(), sum.size());
    staged_shard const about{1, 7, 42, 0x123456789abcdef0, 0x1'0000'0003, 1};
    for (std::size_t n = 0; n < samples; ++n) {
        dropout_draw<double> const one{
            {.seed = about.seed, .step = 3, .shard = 7, .first = about.first + n}, 5, 2'000'000'000u, 1.5};
        dropout_forward<size, 1>(reference{}, &wide_a[n * size], one, &dropped[n * size]);
    }
    for (std::size_t i = 0; i < running.size(); ++i) running[i] = wide_a[i] + 0.25 * (wide_b[i] - wide_a[i]);

    staged<Policy> s(samples, about);
    array<T> const at_a(s.r, a), at_b(s.r, b), to(s.r, numbers::unset<T>(a.size()));
    T const *const pa = at_a.data(), *const pb = at_b.data();
    add_values(s.k, pa, pb, to.data(), size);
    CHECK(distance(to.read(), sum) < allowed<T>);
    dropout_forward<size, 1>(s.k, pa, dropout_draw<T>{{}, 5, 2'000'000'000u, T(1.5)}, to.data());
    CHECK(distance(to.read(), dropped) < allowed<T>);
    to.write(a);
    update_running(s.k, to.data(), pb, T(0.25), a.size());
    CHECK(distance(to.read(), running) < allowed<T>);
    std::vector<bf16> rounded(a.size());
    array<bf16> const narrow(s.r, rounded);
    round_values(s.k, pa, narrow.data(), a.size());
    for (std::size_t i = 0; i < a.size(); ++i) rounded[i] = static_cast<bf16>(static_cast<float>(a[i]));
    CHECK(narrow.read() == rounded);
    to.write(a);
    add_into(s.k, to.data(), static_cast<bf16 const*>(narrow.data()), a.size());
    for (std::size_t i = 0; i < a.size(); ++i)
        sum[i] = static_cast<double>(a[i]) + static_cast<double>(static_cast<float>(rounded[i]));
    CHECK(distance(to.read(), sum) < allowed<T>);
}

template<class Policy, class G, class T>
void means_of_channels_match() {
    CAPTURE(Policy::name);
    CAPTURE(G::positions);
    CAPTURE(sizeof(T));
    constexpr std::size_t samples = 35, size = G::channels * G::positions;
    auto const x = numbers::uniform<T>(0, samples * size), dy = numbers::uniform<T>(1, samples * G::channels);
    auto const wide_x = widened(x), wide_dy = widened(dy);
    std::vector<double> y(dy.size()), dx(x.size());
    for (std::size_t n = 0; n < samples; ++n) {
        global_avg_pool2d_forward<G, 1>(reference{}, &wide_x[n * size], &y[n * G::channels]);
        global_avg_pool2d_backward_input<G, 1>(reference{}, &wide_dy[n * G::channels], &dx[n * size]);
    }
    on_gpu::rank r;
    auto const k = r.policy<Policy>(samples);
    array<T> const at_x(r, x), at_dy(r, dy), at_y(r, numbers::unset<T>(y.size())),
        at_dx(r, numbers::unset<T>(x.size()));
    global_avg_pool2d_forward<G, 1>(k, static_cast<T const*>(at_x.data()), at_y.data());
    global_avg_pool2d_backward_input<G, 1>(k, static_cast<T const*>(at_dy.data()), at_dx.data());
    CHECK(distance(at_y.read(), y) < allowed<T>);
    CHECK(distance(at_dx.read(), dx) < allowed<T>);
}

} // namespace cuda_test
using namespace cuda_test;

TEST_SUITE("kernels/cuda residual kernels") {
    TEST_CASE("batch norm, of as many samples as there are and of fewer") {
        batch_norm_matches<cuda_kernels, channel_geometry<16, 49>, 37, float>(37);
        batch_norm_matches<cuda_kernels, channel_geometry<16, 49>, 37, double>(30);
        batch_norm_matches<cuda_kernels, channel_geometry<5, 9>, 300, float>(211); // several channels per block
        batch_norm_matches<cuda_kernels, channel_geometry<70, 1>, 3000, float>(3000);
        batch_norm_matches<cuda_kernels, channel_geometry<3, 3136>, 64, float>(64); // as many parts as there may be
        batch_norm_matches<cuda_block_kernels, channel_geometry<70, 1>, 65, double>(2);
    }
    TEST_CASE("sums, dropout and running statistics") {
        sums_and_drops_match<cuda_kernels, float>();
        sums_and_drops_match<cuda_kernels, double>();
    }
    TEST_CASE("means of channels") {
        means_of_channels_match<cuda_kernels, channel_geometry<9, 49>, float>();
        means_of_channels_match<cuda_kernels, channel_geometry<9, 10>, double>();
        means_of_channels_match<cuda_kernels, channel_geometry<9, 1>, float>();
    }
}
