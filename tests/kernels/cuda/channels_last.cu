// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Kernels whose images lie channels last against the same kernels channels first, which other tests compare with the
// textbook.

#include <trireme/device/cuda/device.hpp>
#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/blocks/batch_norm.hpp>
#include <trireme/kernels/blocks/conv2d.hpp>
#include <trireme/kernels/blocks/dropout.hpp>
#include <trireme/kernels/blocks/pool2d.hpp>
#include <trireme/kernels/blocks/samples.hpp>

#include "on_gpu.hpp"
#include <support/compare.hpp>
#include <support/numbers.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

using namespace trireme;
using numbers::last;
using on_gpu::allowed;
using on_gpu::array;
using on_gpu::distance;
using on_gpu::widened;

namespace cuda_test {

/// One rank, whose kernels work on a shard of which all samples are there.
template<class Policy>
struct shard : on_gpu::staged<Policy> {
    explicit shard(std::size_t samples)
        : on_gpu::staged<Policy>(samples, {static_cast<std::uint32_t>(samples), 1, 0, 5, 3, 0.5}) {}
    /// A call of `run` makes this of an array.
    template<class T, class Run>
    std::vector<T> left_by(std::vector<T> const& before, Run const& run) {
        array<T> const to(this->r, before);
        run(to.data());
        return to.read();
    }
};

template<class T>
struct convolution_results {
    std::vector<T> y, dx, dw;
};
template<class Policy, class G, class T>
convolution_results<T> convolved(std::size_t samples, std::vector<T> const& x, std::vector<T> const& w,
                                 std::vector<T> const& b, std::vector<T> const& dy, std::vector<T> const& before,
                                 std::size_t skip) {
    shard<Policy> s(samples);
    array<T> const at_x(s.r, x), at_w(s.r, w, skip), at_b(s.r, b), at_dy(s.r, dy);
    with_function<Policy, relu_function, T> const f(s.k, at_x.data());
    T const *const px = at_x.data(), *const pw = at_w.data(), *const pb = at_b.data(), *const pdy = at_dy.data();
    convolution_results<T> result;
    result.y = s.left_by(dy, [&](T* y) { conv2d_forward<G, 1>(f, px, pw, pb, y); });
    result.dx = s.left_by(x, [&](T* dx) { conv2d_backward_input<G, 1>(f, pw, pdy, dx); });
    result.dw = s.left_by(before, [&](T* dw) { conv2d_backward_weights<G, 1>(s.k, px, pdy, dw, dw + w.size()); });
    return result;
}

template<class Policy, std::size_t C, std::size_t H, std::size_t W, std::size_t O, std::size_t K, std::size_t P,
         std::size_t S, class T>
void convolutions_are_the_same(std::size_t samples) {
    using first = conv2d_geometry<C, H, W, O, K, P, S>;
    using moved = conv2d_geometry<C, H, W, O, K, P, S, true>;
    CAPTURE(Policy::name);
    CAPTURE(cuda_runtime::convolution_sizes::of<moved>(samples).text());
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    constexpr std::size_t inputs = H * W, outputs = first::out_height * first::out_width, taps = K * K;
    auto const x = numbers::uniform<T>(0, samples * C * inputs), dy = numbers::uniform<T>(3, samples * O * outputs);
    auto const w = numbers::uniform<T>(1, O * C * taps), b = numbers::uniform<T>(2, O);
    auto const before = numbers::uniform<T>(4, O * C * taps + O);
    auto const wanted = convolved<Policy, first>(samples, x, w, b, dy, before, 0);
    for (std::size_t const skip : {0, 1, 8}) { // weights anywhere, and on an address that cuDNN takes
        CAPTURE(skip);
        auto const is = convolved<Policy, moved>(samples, last(x, samples, C, inputs), last(w, O, C, taps), b,
                                                 last(dy, samples, O, outputs), last(before, O, C, taps), skip);
        CHECK(distance(is.y, widened(last(wanted.y, samples, O, outputs))) < allowed<T>);
        CHECK(distance(is.dx, widened(last(wanted.dx, samples, C, inputs))) < allowed<T>);
        CHECK(distance(is.dw, widened(last(wanted.dw, O, C, taps))) < allowed<T>);
    }
}

/// The gradients of a maximum by places that forward has saved have the bits of those by searches, with ties and a NaN,
/// alone and before the slope of a function.
template<class G, class Policy, class T>
void places_are_those_of_a_search(shard<Policy>& s, std::size_t inputs, std::vector<T> const& dy) {
    std::vector<T> x(inputs);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(static_cast<float>(i * 7919 % 5));
    x[inputs / 2] = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    array<T> const at_x(s.r, x), at_dy(s.r, dy);
    T const *const px = at_x.data(), *const pdy = at_dy.data();
    array<std::uint8_t> const places(s.r, std::vector<std::uint8_t>(dy.size(), 255));
    std::uint8_t const* const saved = places.data();
    with_function<Policy, sigmoid_function, T> const curved(s.k, px);

    auto const y = s.left_by(dy, [&](T* to) { max_pool2d_forward<G, 1>(s.k, px, to); });
    auto const beside_places = s.left_by(dy, [&](T* to) { max_pool2d_forward<G, 1>(s.k, px, to, places.data()); });
    CHECK(test_support::same_bits(beside_places, y));
    auto const dx = s.left_by(x, [&](T* to) { max_pool2d_backward_input<G, 1>(s.k, px, px, pdy, to); });
    auto const by_places = s.left_by(x, [&](T* to) { max_pool2d_backward_input<G, 1>(s.k, saved, pdy, to); });
    CHECK(test_support::same_bits(by_places, dx));
    auto const curved_dx = s.left_by(x, [&](T* to) { max_pool2d_backward_input<G, 1>(curved, px, px, pdy, to); });
    auto const curved_by_places = s.left_by(x, [&](T* to) { max_pool2d_backward_input<G, 1>(curved, saved, pdy, to); });
    CHECK(test_support::same_bits(curved_by_places, curved_dx));
}

template<class Policy, class T>
void pools_are_the_same() {
    constexpr std::size_t C = 6, H = 9, W = 8, samples = 5;
    using first = pool2d_geometry<C, H, W, 3, 2>;
    using moved = pool2d_geometry<C, H, W, 3, 2, true>;
    constexpr std::size_t outputs = first::out_height * first::out_width;
    auto const x = numbers::uniform<T>(0, samples * C * H * W), dy = numbers::uniform<T>(1, samples * C * outputs);
    shard<Policy> s(samples);
    array<T> const at_x(s.r, x), at_dy(s.r, dy), last_x(s.r, last(x, samples, C, H * W)),
        last_dy(s.r, last(dy, samples, C, outputs));
    T const *const px = at_x.data(), *const pdy = at_dy.data(), *const lx = last_x.data(), *const ldy = last_dy.data();

    auto const means = s.left_by(dy, [&](T* y) { avg_pool2d_forward<first, 1>(s.k, px, y); });
    auto const last_means = s.left_by(dy, [&](T* y) { avg_pool2d_forward<moved, 1>(s.k, lx, y); });
    CHECK(distance(last_means, widened(last(means, samples, C, outputs))) < allowed<T>);
    auto const largest = s.left_by(dy, [&](T* y) { max_pool2d_forward<first, 1>(s.k, px, y); });
    auto const last_largest = s.left_by(dy, [&](T* y) { max_pool2d_forward<moved, 1>(s.k, lx, y); });
    CHECK(last_largest == last(largest, samples, C, outputs));
    auto const by_means = s.left_by(x, [&](T* dx) { avg_pool2d_backward_input<first, 1>(s.k, pdy, dx); });
    auto const last_by_means = s.left_by(x, [&](T* dx) { avg_pool2d_backward_input<moved, 1>(s.k, ldy, dx); });
    CHECK(distance(last_by_means, widened(last(by_means, samples, C, H * W))) < allowed<T>);
    auto const by_largest = s.left_by(x, [&](T* dx) { max_pool2d_backward_input<first, 1>(s.k, px, px, pdy, dx); });
    auto const last_by_largest =
        s.left_by(x, [&](T* dx) { max_pool2d_backward_input<moved, 1>(s.k, lx, lx, ldy, dx); });
    CHECK(distance(last_by_largest, widened(last(by_largest, samples, C, H * W))) < allowed<T>);
    places_are_those_of_a_search<first>(s, x.size(), dy);
    places_are_those_of_a_search<moved>(s, x.size(), dy);
}

template<std::size_t C, std::size_t P, class T>
void channels_are_the_same(std::size_t samples) {
    using first = channel_geometry<C, P>;
    using moved = channel_geometry<C, P, true>;
    CAPTURE(C);
    CAPTURE(P);
    auto const x = numbers::uniform<T>(0, samples * C * P), dy = numbers::uniform<T>(1, samples * C * P);
    auto const numbers_of_channels = numbers::uniform<T>(2, 2 * C);
    shard<cuda_kernels> s(samples);
    array<T> const at_x(s.r, x), at_dy(s.r, dy), last_x(s.r, last(x, samples, C, P)),
        last_dy(s.r, last(dy, samples, C, P)), at_numbers(s.r, numbers_of_channels);
    T const *const px = at_x.data(), *const pdy = at_dy.data(), *const lx = last_x.data(), *const ldy = last_dy.data();
    T const *const weight = at_numbers.data(), *const bias = weight + C;
    std::vector<T> const ones(4 * C, T(1));

    auto const means = s.left_by(dy, [&](T* y) { global_avg_pool2d_forward<first, 1>(s.k, px, y); });
    auto const last_means = s.left_by(dy, [&](T* y) { global_avg_pool2d_forward<moved, 1>(s.k, lx, y); });
    CHECK(distance(last_means, widened(means)) < allowed<T>); // both beginning with dy
    auto const by_means = s.left_by(x, [&](T* dx) { global_avg_pool2d_backward_input<first, 1>(s.k, pdy, dx); });
    auto const last_by_means = s.left_by(x, [&](T* dx) { global_avg_pool2d_backward_input<moved, 1>(s.k, pdy, dx); });
    CHECK(last_by_means == last(by_means, samples, C, P));

    auto const bias_gradient =
        s.left_by(std::vector<T>(C, T(1)), [&](T* to) { blocks::add_bias_gradient<first>(s.k.blocks(), pdy, to); });
    auto const last_bias_gradient =
        s.left_by(std::vector<T>(C, T(1)), [&](T* to) { blocks::add_bias_gradient<moved>(s.k.blocks(), ldy, to); });
    CHECK(distance(last_bias_gradient, widened(bias_gradient)) < allowed<T>);

    batch_norm_numbers<T> numbers{.weight = weight, .bias = bias};
    auto const kept = s.left_by(ones, [&](T* to) {
        numbers.mean = to;
        numbers.statistics = to + 2 * C;
        batch_norm_gather<first, 1>(s.k, px, numbers);
        batch_norm_agree<first, false>(s.k, numbers, 0);
    });
    auto const last_kept = s.left_by(ones, [&](T* to) {
        numbers.mean = to;
        numbers.statistics = to + 2 * C;
        batch_norm_gather<moved, 1>(s.k, lx, numbers);
        batch_norm_agree<moved, false>(s.k, numbers, 0);
    });
    CHECK(distance(last_kept, widened(kept)) < allowed<T>);
    array<T> const at_kept(s.r, kept);
    numbers.mean = at_kept.data();
    numbers.deviation = numbers.mean + C;
    auto const y = s.left_by(x, [&](T* to) { batch_norm_forward<first, 1>(s.k, px, numbers, to); });
    auto const last_y = s.left_by(x, [&](T* to) { batch_norm_forward<moved, 1>(s.k, lx, numbers, to); });
    CHECK(distance(last_y, widened(last(y, samples, C, P))) < allowed<T>);
    auto const sums = s.left_by(ones, [&](T* to) {
        numbers.sums = to;
        numbers.weight_gradient = to + 2 * C;
        numbers.bias_gradient = to + 3 * C;
        batch_norm_backward_gather<first, 1>(s.k, px, pdy, numbers);
        batch_norm_backward_agree<first, false>(s.k, numbers, 0);
    });
    auto const last_sums = s.left_by(ones, [&](T* to) {
        numbers.sums = to;
        numbers.weight_gradient = to + 2 * C;
        numbers.bias_gradient = to + 3 * C;
        batch_norm_backward_gather<moved, 1>(s.k, lx, ldy, numbers);
        batch_norm_backward_agree<moved, false>(s.k, numbers, 0);
    });
    CHECK(distance(last_sums, widened(sums)) < allowed<T>);
    array<T> const at_sums(s.r, sums);
    numbers.sums = at_sums.data();
    auto const dx = s.left_by(x, [&](T* to) { batch_norm_backward_input<first, 1>(s.k, px, pdy, numbers, to); });
    auto const last_dx = s.left_by(x, [&](T* to) { batch_norm_backward_input<moved, 1>(s.k, lx, ldy, numbers, to); });
    CHECK(distance(last_dx, widened(last(dx, samples, C, P))) < allowed<T>);
}

} // namespace cuda_test
using namespace cuda_test;

TEST_SUITE("kernels/cuda channels last") {
    TEST_CASE("convolutions by block programs") {
        convolutions_are_the_same<cuda_block_kernels, 5, 9, 8, 7, 3, 1, 2, float>(3);
        convolutions_are_the_same<cuda_block_kernels, 1, 28, 28, 16, 3, 1, 1, bf16>(4);
    }
    TEST_CASE("convolutions by cuDNN") {
        convolutions_are_the_same<cuda_library_kernels, 16, 14, 14, 24, 3, 1, 1, bf16>(5);
        convolutions_are_the_same<cuda_library_kernels, 16, 14, 14, 24, 1, 0, 2, bf16>(5);
        convolutions_are_the_same<cuda_kernels, 64, 14, 14, 64, 3, 1, 1, bf16>(8);
        convolutions_are_the_same<cuda_kernels, 64, 14, 14, 128, 3, 1, 2, bf16>(8);
    }
    TEST_CASE("pooling") {
        pools_are_the_same<cuda_block_kernels, float>();
        pools_are_the_same<cuda_library_kernels, float>();
        pools_are_the_same<cuda_library_kernels, bf16>();
    }
    TEST_CASE("means of channels and batch norm") {
        channels_are_the_same<16, 49, float>(37);
        channels_are_the_same<70, 4, float>(300);
        channels_are_the_same<3, 784, double>(64);
    }
    TEST_CASE("samples, weights and what is dropped") {
        constexpr std::size_t images = 4, channels = 5, positions = 12, all = images * channels * positions;
        order_channels_last const order{channels, positions, all};
        auto const from = numbers::uniform<float>(0, all), before = numbers::uniform<float>(1, all);
        shard<cuda_kernels> s(images);
        array<float> const at(s.r, from), moved(s.r, last(from, images, channels, positions));
        auto const rounded = s.left_by(std::vector<bf16>(all), [&](bf16* to) {
            round_values(s.k, static_cast<float const*>(at.data()), to, all, order);
        });
        CHECK(distance(rounded, widened(last(from, images, channels, positions))) < allowed<bf16>);
        auto const sum = s.left_by(
            before, [&](float* to) { add_into(s.k, to, static_cast<float const*>(moved.data()), all, order); });
        for (std::size_t i = 0; i < all; ++i) CHECK(sum[i] == before[i] + from[i]);

        std::vector<std::uint8_t> pixels(all);
        for (std::size_t i = 0; i < all; ++i) pixels[i] = static_cast<std::uint8_t>(i);
        array<std::uint8_t> const at_pixels(s.r, pixels);
        array<staged_shard> const about(s.r, {staged_shard{.bytes = true}});
        auto const x = s.left_by(before, [&](float* to) {
            convert_inputs<float>(s.k, about.data(), reinterpret_cast<std::byte const*>(at_pixels.data()), to,
                                  channels * positions, order);
        });
        auto const moved_pixels = last(pixels, images, channels, positions);
        for (std::size_t i = 0; i < all; ++i) CHECK(x[i] == static_cast<float>(moved_pixels[i]));

        auto const kept = [&](array<float> const& values, std::uint32_t of) {
            return s.left_by(before, [&](float* to) {
                dropout_forward<channels * positions, 1>(s.k, static_cast<float const*>(values.data()),
                                                         dropout_draw<float>{{}, 2, 1'500'000'000, 1.5f, of}, to);
            });
        };
        CHECK(kept(moved, channels) == last(kept(at, 1), images, channels, positions));
    }
}
