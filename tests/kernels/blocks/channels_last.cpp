// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Kernels whose images lie channels last do what those for channels first do, to the bit: they add in the same order.
// What adds in another one is compared with the textbook (batch_norm.cpp).

#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/blocks/channels.hpp>
#include <trireme/kernels/blocks/conv2d.hpp>
#include <trireme/kernels/blocks/dropout.hpp>
#include <trireme/kernels/blocks/pool2d.hpp>
#include <trireme/kernels/blocks/samples.hpp>

#include <kernels/blocks/rig.hpp>
#include <support/compare.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

namespace device_blocks_channels_last_test {
using namespace trireme;
using numbers::last;
using namespace blocks_test;

namespace {

/// work(policy) for so many samples, checked to be the same in every order.
template<class T, class Work>
std::vector<T> left_by(std::size_t samples, std::vector<T> result, Work const& work) {
    CHECK(same_in_every_order(samples, 1 << 20, result, [&](rehearsal_kernels const& k) { work(k, result.data()); }));
    return result;
}

template<std::size_t C, std::size_t H, std::size_t W, std::size_t O, std::size_t K, std::size_t P, std::size_t S,
         class T>
void convolutions_are_the_same(std::size_t samples) {
    using first = conv2d_geometry<C, H, W, O, K, P, S>;
    using moved = conv2d_geometry<C, H, W, O, K, P, S, true>;
    using function = sigmoid_function;
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(C);
    CAPTURE(O);
    CAPTURE(K);
    CAPTURE(S);
    CAPTURE(samples);
    constexpr std::size_t inputs = H * W, outputs = first::out_height * first::out_width, taps = K * K;
    auto const x = uniform<T>(0, samples * C * inputs), w = uniform<T>(1, O * C * taps), b = uniform<T>(2, O);
    auto const dy = uniform<T>(3, samples * O * outputs), before = uniform<T>(4, O * C * taps + O);
    auto const x_last = last(x, samples, C, inputs), w_last = last(w, O, C, taps);
    auto const dy_last = last(dy, samples, O, outputs), before_last = last(before, O, C, taps);

    auto const y_of = [&]<class G>(G*, auto const& from, auto const& weights) {
        return left_by(samples, unset<T>(dy.size()), [&](rehearsal_kernels const& k, T* y) {
            conv2d_forward<G, 1>(with_function<rehearsal_kernels, function, T>(k), from.data(), weights.data(),
                                 b.data(), y);
        });
    };
    CHECK(wide(y_of(static_cast<moved*>(nullptr), x_last, w_last)) ==
          wide(last(y_of(static_cast<first*>(nullptr), x, w), samples, O, outputs)));

    auto const dx_of = [&]<class G>(G*, auto const& from, auto const& weights, auto const& input) {
        return left_by(samples, unset<T>(x.size()), [&](rehearsal_kernels const& k, T* dx) {
            conv2d_backward_input<G, 1>(with_function<rehearsal_kernels, function, T>(k, input.data()), weights.data(),
                                        from.data(), dx);
        });
    };
    CHECK(wide(dx_of(static_cast<moved*>(nullptr), dy_last, w_last, x_last)) ==
          wide(last(dx_of(static_cast<first*>(nullptr), dy, w, x), samples, C, inputs)));

    auto const dw_of = [&]<class G>(G*, auto const& from, auto const& gradient, auto const& sum) {
        return left_by(samples, sum, [&](rehearsal_kernels const& k, T* dw) {
            conv2d_backward_weights<G, 1>(k, from.data(), gradient.data(), dw, dw + w.size());
        });
    };
    CHECK(wide(dw_of(static_cast<moved*>(nullptr), x_last, dy_last, before_last)) ==
          wide(last(dw_of(static_cast<first*>(nullptr), x, dy, before), O, C, taps)));
}

template<std::size_t C, std::size_t H, std::size_t W, std::size_t K, std::size_t S, class T>
void pools_are_the_same(std::size_t samples, bool nan) {
    using first = pool2d_geometry<C, H, W, K, S>;
    using moved = pool2d_geometry<C, H, W, K, S, true>;
    CAPTURE(C);
    CAPTURE(K);
    CAPTURE(nan);
    constexpr std::size_t inputs = H * W, outputs = first::out_height * first::out_width;
    auto x = uniform<T>(0, samples * C * inputs);
    if (nan) x[inputs / 2] = x[x.size() - 1] = std::numeric_limits<T>::quiet_NaN();
    auto const dy = uniform<T>(1, samples * C * outputs);
    auto const x_last = last(x, samples, C, inputs), dy_last = last(dy, samples, C, outputs);
    auto const all_of = [&]<class G>(G*, auto const& from, auto const& gradient) {
        std::vector<T> largest(dy.size());
        auto const places = left_by(samples, std::vector<std::uint8_t>(dy.size(), 255), [&](auto const& k, auto* to) {
            max_pool2d_forward<G, 1>(k, from.data(), largest.data(), to);
        });
        struct results {
            std::vector<T> mean, largest, by_mean, by_largest, by_places;
        };
        return results{left_by(samples, unset<T>(dy.size()),
                               [&](auto const& k, T* y) { avg_pool2d_forward<G, 1>(k, from.data(), y); }),
                       left_by(samples, unset<T>(dy.size()),
                               [&](auto const& k, T* y) { max_pool2d_forward<G, 1>(k, from.data(), y); }),
                       left_by(samples, unset<T>(x.size()),
                               [&](auto const& k, T* dx) { avg_pool2d_backward_input<G, 1>(k, gradient.data(), dx); }),
                       left_by(samples, unset<T>(x.size()),
                               [&](auto const& k, T* dx) {
                                   max_pool2d_backward_input<G, 1>(k, from.data(), from.data(), gradient.data(), dx);
                               }),
                       left_by(samples, unset<T>(x.size()), [&](auto const& k, T* dx) {
                           max_pool2d_backward_input<G, 1>(k, places.data(), gradient.data(), dx);
                       })};
    };
    auto const is = all_of(static_cast<moved*>(nullptr), x_last, dy_last);
    auto const wanted = all_of(static_cast<first*>(nullptr), x, dy);
    CHECK(test_support::same_bits(is.mean, last(wanted.mean, samples, C, outputs)));
    CHECK(test_support::same_bits(is.largest, last(wanted.largest, samples, C, outputs)));
    CHECK(test_support::same_bits(is.by_mean, last(wanted.by_mean, samples, C, inputs)));
    CHECK(test_support::same_bits(is.by_largest, last(wanted.by_largest, samples, C, inputs)));
    CHECK(test_support::same_bits(is.by_places, is.by_largest));
    CHECK(test_support::same_bits(wanted.by_places, wanted.by_largest));
}

template<std::size_t C, std::size_t P, class T>
void means_of_channels_are_near(std::size_t samples) {
    using first = channel_geometry<C, P>;
    using moved = channel_geometry<C, P, true>;
    auto const x = uniform<T>(0, samples * C * P), dy = uniform<T>(1, samples * C);
    auto const x_last = last(x, samples, C, P);
    auto const wanted = left_by(samples, unset<T>(dy.size()),
                                [&](auto const& k, T* y) { global_avg_pool2d_forward<first, 1>(k, x.data(), y); });
    auto const is = left_by(samples, unset<T>(dy.size()),
                            [&](auto const& k, T* y) { global_avg_pool2d_forward<moved, 1>(k, x_last.data(), y); });
    CHECK(apart(is, wide(wanted), P) <= 1);
    auto const by_x = left_by(samples, unset<T>(x.size()), [&](auto const& k, T* dx) {
        global_avg_pool2d_backward_input<first, 1>(k, dy.data(), dx);
    });
    auto const by_x_last = left_by(samples, unset<T>(x.size()), [&](auto const& k, T* dx) {
        global_avg_pool2d_backward_input<moved, 1>(k, dy.data(), dx);
    });
    CHECK(wide(by_x_last) == wide(last(by_x, samples, C, P)));
}

} // namespace

TEST_SUITE("kernels/blocks/channels_last") {
    TEST_CASE("convolutions") {
        for (std::size_t const samples : std::initializer_list<std::size_t>{1, 5}) {
            convolutions_are_the_same<1, 9, 11, 6, 5, 2, 1, float>(samples);
            convolutions_are_the_same<7, 8, 6, 5, 3, 1, 1, float>(samples);
            convolutions_are_the_same<6, 9, 8, 10, 3, 1, 2, double>(samples);
            convolutions_are_the_same<6, 8, 8, 12, 1, 0, 2, bf16>(samples);
            convolutions_are_the_same<40, 5, 4, 36, 3, 1, 1, bf16>(samples); // in several tiles and chunks
        }
    }

    TEST_CASE("pooling") {
        for (bool const nan : {false, true}) {
            pools_are_the_same<3, 7, 9, 2, 2, float>(3, nan);
            pools_are_the_same<2, 8, 7, 3, 2, double>(5, nan);
            pools_are_the_same<1, 6, 6, 2, 2, float>(2, nan);
        }
    }

    TEST_CASE("means of channels") {
        means_of_channels_are_near<5, 9, float>(3);
        means_of_channels_are_near<70, 49, double>(2);
        means_of_channels_are_near<32, 1, bf16>(4);
    }

    TEST_CASE("sums of channels, of the samples that count") {
        constexpr std::size_t channels = 37, positions = 6, samples = 50, count = 41;
        auto const x = uniform<double>(0, samples * channels * positions), before = uniform<double>(1, channels);
        auto const x_last = last(x, samples, channels, positions);
        staged_shard const about{count, 0, 0, 0, 0, 1};
        auto const sums = left_by(samples, before, [&](rehearsal_kernels k, double* to) {
            k.set_shard(&about);
            blocks::add_channel_sums<channel_geometry<channels, positions, true>>(k, x_last.data(), to);
        });
        for (std::size_t c = 0; c < channels; ++c) {
            double wanted = before[c];
            for (std::size_t n = 0; n < count; ++n)
                for (std::size_t p = 0; p < positions; ++p) wanted += x[(n * channels + c) * positions + p];
            CHECK(sums[c] == doctest::Approx(wanted).epsilon(1e-12));
        }
    }

    TEST_CASE("dropout drops the same values") {
        constexpr std::size_t channels = 5, positions = 12, samples = 7, size = channels * positions;
        auto const x = uniform<float>(0, samples * size), x_last = last(x, samples, channels, positions);
        for (std::uint64_t const at : std::initializer_list<std::uint64_t>{0, 1, 2, 3}) {
            staged_shard const about{samples, 3, at, 11, 5, 1};
            auto const kept = [&](std::vector<float> const& from, std::uint32_t of) {
                return left_by(samples, unset<float>(x.size()), [&](rehearsal_kernels k, float* to) {
                    k.set_shard(&about);
                    dropout_forward<size, 1>(k, from.data(), dropout_draw<float>{{}, 2, 1'500'000'000, 1.5f, of}, to);
                });
            };
            CHECK(kept(x_last, channels) == last(kept(x, 1), samples, channels, positions));
        }
    }

    TEST_CASE("samples and weights change their order on the way") {
        constexpr std::size_t images = 4, channels = 3, positions = 10, all = images * channels * positions + 6;
        order_channels_last const order{channels, positions, images * channels * positions};
        auto const from = uniform<float>(0, all), before = uniform<float>(1, all);
        auto const there = left_by(1, unset<bf16>(all), [&](rehearsal_kernels const& k, bf16* to) {
            round_values(k, from.data(), to, all, order);
        });
        std::vector<bf16> rounded;
        for (float const value : from) rounded.push_back(static_cast<bf16>(value));
        CHECK(wide(there) == wide(last(rounded, images, channels, positions)));

        auto const back = left_by(
            1, before, [&](rehearsal_kernels const& k, float* sum) { add_into(k, sum, there.data(), all, order); });
        for (std::size_t i = 0; i < all; ++i) CHECK(back[i] == before[i] + static_cast<float>(rounded[i]));

        std::vector<std::uint8_t> pixels(images * channels * positions);
        for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(2 * i);
        staged_shard const about{.scale = 0.5, .bytes = true};
        auto const x = left_by(images, unset<float>(pixels.size()), [&](rehearsal_kernels const& k, float* to) {
            convert_inputs<float>(k, &about, reinterpret_cast<std::byte const*>(pixels.data()), to,
                                  channels * positions, order);
        });
        for (std::size_t i = 0; i < pixels.size(); ++i)
            CHECK(x[i] == 0.5f * static_cast<float>(last(pixels, images, channels, positions)[i]));
    }
}

} // namespace device_blocks_channels_last_test
