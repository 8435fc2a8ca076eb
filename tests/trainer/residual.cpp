// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <golden/hash.hpp>
#include <support/golden.hpp>
#include <support/networks.hpp>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

namespace trainer_residual_test {
using namespace trireme;
using test_networks::any_layout;
using test_networks::conv3;
using test_networks::halving;
using test_networks::plain;

namespace {

labelled_images const& training_images() {
    static auto const data = fashion_mnist::load();
    return data.train;
}

/// The network of the golden values.
template<class Norm>
using small_resnet = network<input<1, 28, 28>, conv3<4>, Norm, relu, repeat<2, plain<Norm, 4>>, halving<Norm, 8>,
                             plain<Norm, 8>, halving<Norm, 12>, plain<Norm, 12>, global_avg_pool2d, linear<10>>;

trireme_golden::file const golden("small_resnet");

float golden_rate() { return static_cast<float>(golden.number("learning_rate")); }

template<class T>
struct outcome {
    std::vector<double> losses;
    std::vector<T> parameters, buffers;
    bool operator==(outcome const& other) const {
        return parameters == other.parameters && buffers == other.buffers && !parameters.empty();
    }
};
template<class Trainer>
outcome<typename Trainer::value_type> outcome_of(Trainer const& t, std::vector<double> losses = {}) {
    auto const p = t.parameters(), b = t.buffers();
    return {std::move(losses), {p.begin(), p.end()}, {b.begin(), b.end()}};
}

/// The first steps of the golden run.
template<class Trainer>
outcome<typename Trainer::value_type> train(Trainer& t, std::size_t steps) {
    t.load_parameters(trireme_golden::parameters<typename Trainer::network_type, typename Trainer::value_type>());
    auto const sizes = golden.integers("batch_sizes");
    REQUIRE(sizes.size() >= steps);
    std::vector<double> losses;
    std::size_t first = 0;
    for (std::size_t k = 0; k < steps; ++k) {
        auto const n = static_cast<std::size_t>(sizes[k]);
        losses.push_back(t.step(training_images().take(first, n)).loss);
        first += n;
    }
    return outcome_of(t, std::move(losses));
}
template<class Trainer>
outcome<typename Trainer::value_type> trained(typename Trainer::options const& options, std::size_t steps) {
    Trainer t(options);
    return train(t, steps);
}

using precise = any_layout<small_resnet<batch_norm<per_shard>>, sgd, precision<f64>>;
using synchronised_trainer =
    trainer<small_resnet<batch_norm<synchronised>>, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>, precision<f64>>;

} // namespace

TEST_SUITE("trainer/residual") {
    TEST_CASE("losses, running statistics and evaluation equal PyTorch's") {
        precise t({.learning_rate = golden_rate(), .batch = 64});
        auto const torch = golden.numbers("loss_f64");
        auto const run = train(t, torch.size());
        for (std::size_t k = 0; k < torch.size(); ++k) {
            CAPTURE(k);
            CHECK(run.losses[k] == doctest::Approx(torch[k]).epsilon(1e-7));
        }
        auto const statistics = golden.numbers("first_statistics");
        REQUIRE(statistics.size() == 8);
        for (std::size_t i = 0; i < 8; ++i) CHECK(t.buffers()[i] == doctest::Approx(statistics[i]).epsilon(1e-6));
        CHECK(t.evaluate(training_images().take(0, 256)).loss ==
              doctest::Approx(golden.number("evaluated")).epsilon(1e-6));
    }

    TEST_CASE(
        "synchronised batch norm: any number of devices computes what one computes, and moves what the plan says") {
        using synchronised_trainer = trainer<small_resnet<batch_norm<synchronised>>, cross_entropy, sgd,
                                             on<mesh<host, dp<dynamic>>>, precision<f64>>;
        auto const options = [](int devices) {
            return synchronised_trainer::options{.learning_rate = golden_rate(), .batch = 64, .devices = devices};
        };
        // Four steps have the same size; the next one leaves devices with one sample more than others.
        constexpr std::size_t some = 4;
        auto const one = trained<synchronised_trainer>(options(1), some + 1);
        auto const torch = golden.numbers("loss_f64");
        REQUIRE(torch.size() > some);
        for (std::size_t k = 0; k <= some; ++k) CHECK(one.losses[k] == doctest::Approx(torch[k]).epsilon(1e-7));
        for (int const devices : {2, 3, 4}) {
            CAPTURE(devices);
            synchronised_trainer t(options(devices));
            auto const here = train(t, some + 1);
            for (std::size_t k = 0; k <= some; ++k)
                CHECK(here.losses[k] == doctest::Approx(one.losses[k]).epsilon(1e-8));
            for (std::size_t i = 0; i < one.buffers.size(); ++i)
                CHECK(here.buffers[i] == doctest::Approx(one.buffers[i]).epsilon(1e-7));
            for (int r = 0; r < devices; ++r) {
                CHECK(t.wire(r).bytes == (some + 1) * t.plan().wire(r).bytes);
                CHECK(t.wire(r).messages == (some + 1) * t.plan().wire(r).messages);
                CHECK(std::equal(t.buffers(0).begin(), t.buffers(0).end(), t.buffers(r).begin()));
            }
        }
    }

    TEST_CASE("synchronised batch norm: devices without a sample take part") {
        synchronised_trainer one({.batch = 64, .seed = 3, .devices = 1}), four({.batch = 64, .seed = 3, .devices = 4});
        for (std::size_t const n : std::initializer_list<std::size_t>{2, 64, 3}) {
            auto const images = training_images().take(10, n);
            CHECK(four.step(images).loss == doctest::Approx(one.step(images).loss).epsilon(1e-8));
        }
    }

    TEST_CASE("batch norm per shard: the same bits on any number of devices") {
        auto const of = [](int devices) {
            return trained<precise>({.learning_rate = 0.1f, .batch = 64, .devices = devices, .logical_shards = 4}, 5);
        };
        auto const one = of(1);
        for (int const devices : {2, 3, 4}) {
            CAPTURE(devices);
            CHECK(of(devices) == one);
        }
    }

    TEST_CASE("weights held once: the bits of a copy per device") {
        using once_held = trainer<small_resnet<batch_norm<per_shard>>, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>,
                                  hold_weights<once>, precision<f64>>;
        auto const a = trained<once_held>({.learning_rate = 0.1f, .batch = 64, .devices = 3}, 6);
        auto const b = trained<precise>({.learning_rate = 0.1f, .batch = 64, .devices = 3}, 6);
        CHECK(a == b);
    }

    TEST_CASE("a step larger than the batch is refused") {
        precise small({.batch = 16});
        CHECK_THROWS_WITH_AS(small.step(training_images().take(0, 17)),
                             doctest::Contains("17 samples, the option batch is 16"), usage_error);
        CHECK(small.step(training_images().take(0, 16)).samples == 16);
    }

    TEST_CASE("dropout: other values in every step, layer and shard, the same on any number of devices") {
        using net = network<input<1, 28, 28>, flatten, linear<32>, relu, dropout<percent<50>>, linear<16>,
                            dropout<percent<20>>, linear<10>>;
        using t = any_layout<net>;
        auto const of = [](int devices) {
            t made({.learning_rate = 0.1f, .batch = 64, .seed = 5, .devices = devices, .logical_shards = 4});
            for (std::size_t k = 0; k < 5; ++k) made.step(training_images().take(64 * k, 64));
            return outcome_of(made);
        };
        CHECK(of(2) == of(1));
        CHECK(of(4) == of(1));
        t still({.learning_rate = 0.0f, .batch = 64, .seed = 5}); // nothing changes but what is dropped
        auto const images = training_images().take(0, 64);
        CHECK(still.step(images).loss != still.step(images).loss);
        CHECK(still.evaluate(images).loss == still.evaluate(images).loss);
    }
}

} // namespace trainer_residual_test
