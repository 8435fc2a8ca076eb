// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps on batches that end in narrow granules and in single samples, against the naive kernels.

#include <support/networks.hpp>
#include <support/sanitizers.hpp>

#include <trireme/reference.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

namespace trainer_few_samples_test {
using namespace trireme;

namespace {

/// A LeNet whose last layer ends with a function, so that backward reads the outputs which the loss has seen.
using net = network<input<1, 28, 28>, conv2d<6, kernel<5>, padding<2>>, sigmoid, avg_pool2d<2>, conv2d<16, kernel<5>>,
                    relu, max_pool2d<2>, flatten, linear<40>, sigmoid, linear<10>, hyperbolic_tangent>;

template<int Devices, class... P>
using trainer_of = trainer<net, cross_entropy, sgd, on<mesh<host, dp<Devices>>>, P...>;

double farthest(std::vector<float> const& a, std::vector<float> const& b) {
    double most = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < a.size(); ++i) {
        auto const off = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
        most = std::isnan(off) ? 1 : std::max(most, off);
    }
    return most;
}

template<int Devices>
void check(std::size_t batch) {
    CAPTURE(batch);
    auto const images = test_networks::made_up(3 * batch);
    trainer_of<Devices> t({.learning_rate = 0.1f, .batch = batch});
    trainer_of<1, kernels<reference>> naive({.learning_rate = 0.1f, .batch = batch});
    for (std::size_t step = 0; step < 3; ++step) {
        auto const some = images.take(step * batch, batch);
        CHECK(t.step(some).loss == doctest::Approx(naive.step(some).loss).epsilon(1e-5));
    }
    CHECK(farthest(t.gather_parameters(), naive.gather_parameters()) < 2e-5);
    auto const here = t.evaluate(images), there = naive.evaluate(images);
    CHECK(here.loss == doctest::Approx(there.loss).epsilon(1e-5));
}

} // namespace

TEST_SUITE("trainer/few_samples") {
    TEST_CASE("a step on few samples is that of the naive kernels, on one and two devices") {
        for (auto const batch : std::initializer_list<std::size_t>{1, 2, 3, 5, 6, 8, 9, 12, 13, 16, 24}) {
            if (sanitized && batch != 3 && batch != 6 && batch != 13) continue; // every width of a granule
            check<1>(batch);
            if (batch > 1) check<2>(batch);
        }
    }

    TEST_CASE("a full granule leaves nothing in the memory of the narrow one behind it") {
        auto const good = test_networks::made_up(24);
        std::vector<float> values(24 * 784);
        std::vector<std::uint8_t> labels(24);
        trainer_of<1> t({.learning_rate = 0.1f, .batch = 24}), other({.learning_rate = 0.1f, .batch = 24});
        std::fill_n(values.begin(), 784, std::numeric_limits<float>::infinity());
        CHECK_THROWS(t.step(samples_in_memory(values, make_shape(1, 28, 28), labels, 10))); // which updates nothing
        t.step(good.take(0, 8));
        other.step(good.take(0, 8));
        CHECK(t.gather_parameters() == other.gather_parameters());
    }

    TEST_CASE("the bits of a reproducible training on few samples are those of one device") {
        auto const images = test_networks::made_up(24);
        using options = typename trainer_of<1, reproducible<fixed_tree, 4>>::options;
        for (auto const batch : std::initializer_list<std::size_t>{12, 20, 24}) {
            trainer_of<1, reproducible<fixed_tree, 4>> one(options{.learning_rate = 0.1f, .batch = batch});
            trainer_of<2, reproducible<fixed_tree, 4>> two({.learning_rate = 0.1f, .batch = batch});
            one.step(images.take(0, batch));
            two.step(images.take(0, batch));
            CHECK(one.gather_parameters() == two.gather_parameters());
        }
    }
}

} // namespace trainer_few_samples_test
