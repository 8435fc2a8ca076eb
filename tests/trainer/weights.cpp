// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <networks.hpp>

#include <trireme/device/host/kernels/reference/activation.hpp>
#include <trireme/device/host/kernels/reference/conv2d.hpp>
#include <trireme/device/host/kernels/reference/linear.hpp>
#include <trireme/device/host/kernels/reference/pool2d.hpp>
#include <trireme/device/host/kernels/reference/sgd.hpp>
#include <trireme/device/host/kernels/reference/softmax_cross_entropy.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

using namespace trireme;
using namespace test_networks;

namespace {

/// 50 parameters: four cache lines in float, so that of five devices one has nothing to update.
using tiny = network<input<1, 28, 28>, avg_pool2d<14>, flatten, linear<10>>;

template<class Network, class Optimizer, class Place, class... Policies>
using holding = trainer<Network, cross_entropy, Optimizer, on<mesh<host, dp<dynamic>>>,
                        reproducible<fixed_tree, dynamic>, hold_weights<Place>, Policies...>;

template<class T>
struct run {
    std::vector<double> losses;
    std::vector<T> weights;
};

std::vector<std::size_t> const sizes = {64, 37, 1, 7, 65, 3, 16, 8};

/// A few steps with batches of different sizes, the learning rate changed on the way.
template<class Trainer>
run<typename Trainer::value_type> train(int devices, std::size_t logical_shards) {
    auto const images = made_up(300);
    Trainer t({.learning_rate = 0.05f,
               .weight_decay = 0.001f,
               .batch = 64,
               .seed = 3,
               .devices = devices,
               .logical_shards = logical_shards});
    run<typename Trainer::value_type> r;
    std::size_t first = 0;
    for (auto const n : sizes) {
        r.losses.push_back(t.step(images.take(first, n)).loss);
        if (n == 7) t.set_learning_rate(0.2f);
        first += n;
    }
    r.weights = weights(t);
    for (int d = 1; d < devices; ++d) CHECK(same_bits(r.weights, weights(t, d)));
    auto const test = t.evaluate(images);
    r.losses.push_back(test.loss);
    r.losses.push_back(test.accuracy);
    return r;
}

template<class Network, class Optimizer, class... Policies>
void once_equals_per_device() {
    using by_all = holding<Network, Optimizer, per_device, Policies...>;
    using by_one = holding<Network, Optimizer, once, Policies...>;
    for (int const devices : {1, 2, 3, 5}) {
        CAPTURE(devices);
        auto const expected = train<by_all>(devices, 0), got = train<by_one>(devices, 0);
        CHECK(same_bits(expected.weights, got.weights));
        CHECK(same_bits(expected.losses, got.losses));
    }
    auto const one = train<by_all>(1, 8);
    for (int const devices : {1, 2, 3, 4, 5}) { // reproducible<fixed_tree, 8>
        CAPTURE(devices);
        auto const many = train<by_one>(devices, 8);
        CHECK(same_bits(one.weights, many.weights));
        CHECK(same_bits(one.losses, many.losses));
    }
}

/// Steps with few samples, and the weights after them.
template<class Trainer>
run<typename Trainer::value_type> few_samples(int devices) {
    auto const images = made_up(100);
    Trainer t({.learning_rate = 0.05f, .batch = 64, .seed = 3, .devices = devices});
    run<typename Trainer::value_type> r;
    std::size_t first = 0;
    for (std::size_t const n : {1u, 2u, 3u, 5u, 8u, 9u, 17u, 33u}) {
        r.losses.push_back(t.step(images.take(first, n)).loss);
        first += n;
    }
    for (std::size_t const n : {1u, 3u, 17u}) {
        auto const test = t.evaluate(images.take(first, n));
        CHECK(test.samples == n);
        r.losses.push_back(test.loss);
        r.losses.push_back(test.accuracy);
        first += n;
    }
    r.weights = weights(t);
    return r;
}

template<class Dtype>
void portable_equals_reference(double tolerance) {
    for (int const devices : {1, 2}) {
        CAPTURE(devices);
        auto const expected = few_samples<any_layout<small, sgd, precision<Dtype>, kernels<reference>>>(devices);
        auto const got = few_samples<any_layout<small, sgd, precision<Dtype>>>(devices);
        REQUIRE(got.losses.size() == expected.losses.size());
        for (std::size_t i = 0; i < got.losses.size(); ++i)
            CHECK(got.losses[i] == doctest::Approx(expected.losses[i]).epsilon(tolerance));
        double worst = 0;
        for (std::size_t i = 0; i < got.weights.size(); ++i) {
            double const off = got.weights[i] - expected.weights[i];
            if (!(std::abs(off) <= worst)) worst = std::abs(off);
        }
        CHECK(worst <= tolerance);
    }
}

} // namespace

TEST_SUITE("trainer/weights") {
    TEST_CASE("one copy of the weights: the bits of a copy per device, reproducible or not") {
        once_equals_per_device<small, sgd_momentum>();
        once_equals_per_device<softmax_regression, sgd>();
        once_equals_per_device<softmax_regression, sgd_nesterov, precision<f64>>();
        once_equals_per_device<tiny, sgd_nesterov>();
        once_equals_per_device<tiny, sgd, precision<f64>>();
        once_equals_per_device<tiny, sgd_momentum, precision<f64>>();
    }

    TEST_CASE("negative control: another number of devices gives other bits") {
        using t = holding<softmax_regression, sgd, once>;
        CHECK_FALSE(same_bits(train<t>(2, 0).weights, train<t>(3, 0).weights));
    }

    TEST_CASE("types that fix the layout mean the same program") {
        auto const images = made_up(100);
        holding<tiny, sgd_momentum, per_device> expected({.batch = 50, .seed = 4, .devices = 3, .logical_shards = 8});
        trainer<tiny, cross_entropy, sgd_momentum, hold_weights<once>, reproducible<fixed_tree, 8>,
                on<mesh<host, dp<3>>>, reduce_by<direct>>
            got({.batch = 50, .seed = 4});
        for (auto const first : {0u, 50u})
            CHECK(got.step(images.take(first, 50)).loss == expected.step(images.take(first, 50)).loss);
        CHECK(same_bits(weights(expected), weights(got)));
    }

    TEST_CASE("all devices compute with the same memory") {
        holding<tiny, sgd, once> one({.devices = 3});
        for (int d = 0; d < 3; ++d) {
            CHECK(one.parameters(d).data() == one.parameters().data());
            CHECK(one.parameters(d).size() == tiny::parameters);
        }
        CHECK_THROWS_AS(one.parameters(3), usage_error);
        holding<tiny, sgd, per_device> many({.devices = 3});
        CHECK(many.parameters(1).data() != many.parameters().data());
        trainer<tiny, cross_entropy, sgd, on<mesh<host, dp<2>>>> by_default;
        CHECK(by_default.parameters(1).data() != by_default.parameters().data());
    }

    TEST_CASE("parameters that are loaded reach every device") {
        auto const images = made_up(64);
        std::vector<float> values(tiny::parameters);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i % 17);
        holding<tiny, sgd_momentum, once> one({.batch = 64, .devices = 5});
        holding<tiny, sgd_momentum, per_device> many({.batch = 64, .devices = 5});
        CHECK(one.step(images).loss == many.step(images).loss);
        one.load_parameters(values);
        many.load_parameters(values);
        for (int d = 0; d < 5; ++d) CHECK(same_bits(weights(one, d), values));
        CHECK(one.evaluate(images).loss == many.evaluate(images).loss);
        CHECK(one.step(images).loss == many.step(images).loss); // with the momentum of the step before
        CHECK(same_bits(weights(one), weights(many)));
    }

    TEST_CASE("whole epochs, and a test after each") {
        auto const images = made_up(200);
        holding<tiny, sgd_momentum, once> one({.batch = 64, .seed = 2, .devices = 4});
        holding<tiny, sgd_momentum, per_device> many({.batch = 64, .seed = 2, .devices = 4});
        std::vector<double> told_one, told_many;
        for (auto const& e : one.fit({images, images.take(0, 99)}, {.epochs = 3}))
            told_one.insert(told_one.end(), {e.loss, e.test.loss, e.test.accuracy});
        for (auto const& e : many.fit({images, images.take(0, 99)}, {.epochs = 3}))
            told_many.insert(told_many.end(), {e.loss, e.test.loss, e.test.accuracy});
        CHECK(told_one.size() == 9);
        CHECK(same_bits(told_one, told_many));
        CHECK(same_bits(weights(one), weights(many)));
    }
}

TEST_SUITE("trainer/few_samples") {
    TEST_CASE("samples that go one by one give the losses and weights of the reference") {
        portable_equals_reference<f32>(1e-5);
        portable_equals_reference<f64>(1e-12);
    }
}
