// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/blocks/batch_norm.hpp>

#include <kernels/blocks/rig.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace device_blocks_batch_norm_test {
using namespace trireme;
using namespace blocks_test;

namespace {

constexpr double epsilon = 1e-5, share = 0.375;

/// The textbook's formulas, in long double, on [sample][channel][position], or [sample][position][channel].
template<class G, class T>
struct truth {
    using wide = long double;
    std::vector<T> const &x, &dy, &weight, &bias;
    std::size_t samples, count;
    std::vector<wide> mean{std::vector<wide>(G::channels)}, variance{mean}, sum{mean}, with_x{mean};

    template<class F>
    void each(F const& f) const {
        for (std::size_t n = 0; n < samples; ++n)
            for (std::size_t c = 0; c < G::channels; ++c)
                for (std::size_t p = 0; p < G::positions; ++p) f(n, c, place(n, c, p));
    }
    static std::size_t place(std::size_t n, std::size_t c, std::size_t p) {
        return G::channels_last ? (n * G::positions + p) * G::channels + c : (n * G::channels + c) * G::positions + p;
    }
    wide deviation(std::size_t c) const { return 1 / std::sqrt(variance[c] + wide(epsilon)); }
    wide normalised(std::size_t c, std::size_t i) const { return (wide(x[i]) - mean[c]) * deviation(c); }
    wide values() const { return count == 0 ? wide(1) : wide(count * G::positions); }

    void find() {
        each([&](std::size_t n, std::size_t c, std::size_t i) { mean[c] += n < count ? wide(x[i]) / values() : 0; });
        each([&](std::size_t n, std::size_t c, std::size_t i) {
            variance[c] += n < count ? (wide(x[i]) - mean[c]) * (wide(x[i]) - mean[c]) / values() : 0;
        });
        each([&](std::size_t n, std::size_t c, std::size_t i) {
            sum[c] += n < count ? wide(dy[i]) : 0;
            with_x[c] += n < count ? wide(dy[i]) * normalised(c, i) : 0;
        });
    }
    T y(std::size_t c, std::size_t i) const { return static_cast<T>(weight[c] * normalised(c, i) + bias[c]); }
    T dx(std::size_t n, std::size_t c, std::size_t i) const {
        if (n >= count) return T(0);
        auto const apart = dy[i] - sum[c] / values() - normalised(c, i) * with_x[c] / values();
        return static_cast<T>(weight[c] * deviation(c) * apart);
    }
};

/// Everything that batch_norm asks for, `count` of so many samples being there; `offset`: how far the values are from
/// 0.
template<class G, class T>
void blocks_equal_the_textbook(std::size_t samples, std::size_t count, double offset = 0) {
    INFO("TRIREME_TEST_SEED=", numbers::seed());
    CAPTURE(G::channels);
    CAPTURE(G::positions);
    CAPTURE(samples);
    CAPTURE(count);
    CAPTURE(offset);
    CAPTURE(sizeof(T));
    constexpr std::size_t C = G::channels, scratch = 1 << 16;
    std::size_t const size = samples * C * G::positions;
    auto x = uniform<T>(0, size), dy = uniform<T>(1, size);
    for (auto& value : x) value = static_cast<T>(static_cast<double>(value) + offset);
    auto const weight = uniform<T>(2, C), bias = uniform<T>(3, C);
    truth<G, T> expected{x, dy, weight, bias, samples, count};
    expected.find();
    std::uint32_t const there = static_cast<std::uint32_t>(count);
    staged_shard const about{there, 0, 0, 0, 0, share};
    auto const with = [&](auto&& work) {
        return [&about, work](rehearsal_kernels k) {
            k.set_shard(&about);
            work(k);
        };
    };
    // a value is rounded like its sums; what is far from 0 has lost that much before
    std::size_t const terms = 64 + count * G::positions + static_cast<std::size_t>(offset);
    std::vector<T> wanted(4 * C), wanted_y(size), wanted_dx(size);
    for (std::size_t c = 0; c < C; ++c) {
        double const n = static_cast<double>(count * G::positions);
        wanted[c] = static_cast<T>(expected.mean[c]);
        wanted[C + c] = static_cast<T>(expected.deviation(c));
        wanted[2 * C + c] = static_cast<T>(1 + share * expected.mean[c]);
        wanted[3 * C + c] = static_cast<T>(1 + share * expected.variance[c] * (n > 1 ? n / (n - 1) : 1));
    }

    batch_norm_numbers<T> numbers_of{.weight = weight.data(), .bias = bias.data(), .epsilon = epsilon};
    std::vector<T> found(4 * C, T(1)); // kept: mean, 1 / deviation; statistics, to be added to
    CHECK(same_in_every_order(samples, scratch, found, with([&](rehearsal_kernels const& k) {
                                  numbers_of.mean = found.data();
                                  numbers_of.statistics = found.data() + 2 * C;
                                  batch_norm_gather<G, 1>(k, static_cast<T const*>(x.data()), numbers_of);
                                  batch_norm_agree<G, false>(k, numbers_of, 0);
                              })));
    if (count > 1 && offset < 100) CHECK(numbers::apart(found, wanted, terms) <= 1);
    if (count == 0)
        for (std::size_t c = 0; c < C; ++c) {
            CHECK(found[c] == 0);
            CHECK(found[2 * C + c] == 1);
            CHECK(found[3 * C + c] == 1);
        }
    if (offset >= 100) // nothing cancels: the variance has as many digits as the values have left
        for (std::size_t c = 0; c < C; ++c)
            CHECK(static_cast<double>(found[3 * C + c]) ==
                  doctest::Approx(static_cast<double>(wanted[3 * C + c])).epsilon(1e-4));
    if (count < 2 || offset >= 100) return;

    numbers_of.mean = found.data();
    numbers_of.deviation = found.data() + C;
    auto y = unset<T>(size);
    CHECK(same_in_every_order(samples, scratch, y, with([&](rehearsal_kernels const& k) {
                                  batch_norm_forward<G, 1>(k, static_cast<T const*>(x.data()), numbers_of, y.data());
                              })));
    expected.each([&](std::size_t, std::size_t c, std::size_t i) { wanted_y[i] = expected.y(c, i); });
    CHECK(numbers::apart(y, wanted_y, terms) <= 1);

    std::vector<T> sums(4 * C, T(1)); // means, then gradients, to be added to
    CHECK(same_in_every_order(samples, scratch, sums, with([&](rehearsal_kernels const& k) {
                                  numbers_of.sums = sums.data();
                                  numbers_of.weight_gradient = sums.data() + 2 * C;
                                  numbers_of.bias_gradient = sums.data() + 3 * C;
                                  batch_norm_backward_gather<G, 1>(k, static_cast<T const*>(x.data()),
                                                                   static_cast<T const*>(dy.data()), numbers_of);
                                  batch_norm_backward_agree<G, false>(k, numbers_of, 0);
                              })));
    for (std::size_t c = 0; c < C; ++c) {
        wanted[c] = static_cast<T>(expected.sum[c] / expected.values());
        wanted[C + c] = static_cast<T>(expected.with_x[c] / expected.values());
        wanted[2 * C + c] = static_cast<T>(1 + expected.with_x[c]);
        wanted[3 * C + c] = static_cast<T>(1 + expected.sum[c]);
    }
    CHECK(numbers::apart(sums, wanted, terms) <= 1);

    numbers_of.sums = sums.data();
    auto dx = unset<T>(size);
    auto const backward = [&](auto const& k, T const* from, T* to) {
        batch_norm_backward_input<G, 1>(k, static_cast<T const*>(x.data()), from, numbers_of, to);
    };
    CHECK(same_in_every_order(samples, scratch, dx,
                              with([&](rehearsal_kernels const& k) { backward(k, dy.data(), dx.data()); })));
    expected.each([&](std::size_t n, std::size_t c, std::size_t i) { wanted_dx[i] = expected.dx(n, c, i); });
    CHECK(numbers::apart(dx, wanted_dx, terms) <= 1);
    for (std::size_t i = count * C * G::positions; i < size; ++i) CHECK(dx[i] == 0);

    // in place, with a function, and in evaluation
    auto in_place = x, gradient_in_place = dy, evaluated = unset<T>(size), sloped = evaluated, curved = evaluated,
         curved_evaluated = evaluated;
    std::vector<T> variances(C);
    for (std::size_t c = 0; c < C; ++c) variances[c] = static_cast<T>(expected.variance[c]);
    rehearse(0, samples, scratch, with([&](rehearsal_kernels const& k) {
                 T const *const mean = found.data(), *const variance = variances.data();
                 with_function<rehearsal_kernels, sigmoid_function, T> const f(k, x.data());
                 batch_norm_forward<G, 1>(k, static_cast<T const*>(in_place.data()), numbers_of, in_place.data());
                 backward(k, gradient_in_place.data(), gradient_in_place.data());
                 batch_norm_forward<G, 1>(f, static_cast<T const*>(x.data()), numbers_of, curved.data());
                 backward(f, dy.data(), sloped.data());
                 batch_norm_evaluate<G, 1>(k, static_cast<T const*>(x.data()), mean, variance, numbers_of,
                                           evaluated.data());
                 batch_norm_evaluate<G, 1>(f, static_cast<T const*>(x.data()), mean, variance, numbers_of,
                                           curved_evaluated.data());
             }));
    CHECK(in_place == y);
    CHECK(gradient_in_place == dx);
    CHECK(numbers::apart(evaluated, wanted_y, terms) <= 1);
    for (std::size_t i = 0; i < size; ++i) {
        wanted_dx[i] *= sigmoid_function::slope(x[i], x[i]);
        wanted_y[i] = sigmoid_function::value(wanted_y[i]);
    }
    CHECK(numbers::apart(curved, wanted_y, terms) <= 1);
    CHECK(numbers::apart(curved_evaluated, wanted_y, terms) <= 1);
    CHECK(numbers::apart(sloped, wanted_dx, terms * static_cast<std::size_t>(1 + offset * offset)) <= 1);
}

template<class G>
void sizes() {
    for (auto const count : std::initializer_list<std::size_t>{0, 1, 2, 5}) {
        blocks_equal_the_textbook<G, float>(5, count);
        blocks_equal_the_textbook<G, double>(5, count);
    }
    blocks_equal_the_textbook<G, float>(65, 50);
    blocks_equal_the_textbook<G, double>(30, 30, 3);
}

} // namespace

TEST_SUITE("kernels/blocks/batch_norm") {
    TEST_CASE("blocks equal the textbook, however many of the samples count") {
        sizes<channel_geometry<3, 49>>(); // a block per channel
        sizes<channel_geometry<2, 1000>>();
        sizes<channel_geometry<5, 16>>(); // several channels per block
        sizes<channel_geometry<7, 9>>();
        sizes<channel_geometry<70, 1>>();
        sizes<channel_geometry<1, 1>>();
        blocks_equal_the_textbook<channel_geometry<2, 49>, float>(700, 611); // several parts, the last ones empty
        blocks_equal_the_textbook<channel_geometry<40, 1>, double>(5000, 3210);
        blocks_equal_the_textbook<channel_geometry<1, 40>, double>(3000, 3000); // as many parts as there may be
    }

    TEST_CASE("channels last as well") {
        sizes<channel_geometry<3, 49, true>>();
        sizes<channel_geometry<40, 4, true>>();
        sizes<channel_geometry<1, 9, true>>();
        blocks_equal_the_textbook<channel_geometry<70, 20, true>, float>(300, 211); // several parts
        blocks_equal_the_textbook<channel_geometry<3, 49, true>, float>(20, 20, 500);
    }

    TEST_CASE("values far from zero keep their variance") {
        blocks_equal_the_textbook<channel_geometry<3, 49>, float>(20, 20, 500);
        blocks_equal_the_textbook<channel_geometry<3, 4>, double>(50, 49, 1e6);
    }

    TEST_CASE("too little workspace is said") {
        float x[4] = {};
        staged_shard const about{};
        rehearse(0, 2, 8, [&](rehearsal_kernels k) {
            k.set_shard(&about);
            CHECK_THROWS_WITH_AS((batch_norm_gather<channel_geometry<2, 1>, 1>(k, static_cast<float const*>(x),
                                                                               batch_norm_numbers<float>{})),
                                 doctest::Contains("needs 16 bytes of workspace"), usage_error);
        });
    }
}

} // namespace device_blocks_batch_norm_test
