// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/kernels/blocks/samples.hpp>

#include <kernels/blocks/rig.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace device_blocks_samples_test {
using namespace trireme;
using namespace blocks_test;

namespace {

/// Inputs of parameter type T that the network keeps as A.
template<class T, class A>
void inputs_become_numbers() {
    std::vector<std::uint8_t> pixels(3 * 100);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i);
    auto const values = uniform<T>(0, pixels.size());
    auto const converted = [&](staged_shard const& about, void const* numbers) {
        auto x = unset<A>(pixels.size());
        CHECK(same_in_every_order(3, 0, x, [&](rehearsal_kernels const& k) {
            convert_inputs<T>(k, &about, static_cast<std::byte const*>(numbers), x.data(), 100);
        }));
        return x;
    };
    auto const of_bytes = converted({.scale = 1.0 / 255, .bytes = true}, pixels.data());
    auto const of_values = converted({.scale = 1.0 / 255, .bytes = false}, values.data()); // they are as they are
    for (std::size_t i = 0; i < pixels.size(); ++i) {
        CHECK(of_bytes[i] == static_cast<A>(static_cast<T>(pixels[i]) * (T(1) / T(255))));
        CHECK(of_values[i] == static_cast<A>(values[i]));
    }
}

template<class T>
void scores_are_added(std::uint32_t count) {
    CAPTURE(count);
    CAPTURE(sizeof(T));
    auto const loss = uniform<T>(0, 1000);
    std::vector<int> correct(1000);
    sample_score expected{2, 7};
    for (std::size_t i = 0; i < correct.size(); ++i) {
        correct[i] = i % 3 == 0 ? 1 : 0;
        if (i >= count) continue;
        expected.loss += static_cast<double>(static_cast<accumulate_t<T>>(loss[i]));
        expected.correct += i % 3 == 0 ? 1 : 0;
    }
    std::vector<sample_score> sums(2, {2, 7});
    CHECK(same_in_every_order(1000, 0, sums, [&](rehearsal_kernels const& k) {
        add_scores(k, loss.data(), correct.data(), &count, sums.data());
        add_scores(k, loss.data(), nullptr, &count, sums.data() + 1);
    }));
    CHECK(sums[0].loss == doctest::Approx(expected.loss).epsilon(1e-12));
    CHECK(sums[0].correct == expected.correct);
    CHECK(sums[1].loss == sums[0].loss);
    CHECK(sums[1].correct == 7);
}

} // namespace

TEST_SUITE("kernels/blocks/samples") {
    TEST_CASE("bytes and values become numbers") {
        inputs_become_numbers<float, float>();
        inputs_become_numbers<double, double>();
        inputs_become_numbers<float, bf16>();
    }

    TEST_CASE("the scores of the first samples are added to what is there, to the same bits in every order") {
        for (std::uint32_t const count : std::initializer_list<std::uint32_t>{0, 1, 2, 255, 256, 257, 1000}) {
            scores_are_added<float>(count);
            scores_are_added<double>(count);
            scores_are_added<bf16>(count);
        }
    }

    TEST_CASE("terms are added in place") {
        for (std::size_t const n : std::initializer_list<std::size_t>{0, 1, 300}) {
            auto const term = uniform<float>(0, n), before = uniform<float>(1, n);
            auto sum = before;
            rehearse(0, 5, 0, [&](rehearsal_kernels const& k) { add_into(k, sum.data(), term.data(), n); });
            for (std::size_t i = 0; i < n; ++i) CHECK(sum[i] == before[i] + term[i]);
        }
    }
}

} // namespace device_blocks_samples_test
