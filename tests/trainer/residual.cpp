// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/golden_losses.hpp>
#include <support/networks.hpp>
#include <support/sanitizers.hpp>
#include <support/training.hpp>

#include <cstddef>
#include <vector>

namespace trainer_residual_test {
using namespace trireme;
using test_networks::any_layout;
using test_networks::conv3;
using test_networks::halving;
using test_networks::plain;
using test_networks::trained;
using trireme_golden::has_losses;
using trireme_golden::training_images;

namespace {

/// The network of the golden values.
template<class Norm>
using small_resnet = network<input<1, 28, 28>, conv3<4>, Norm, relu, repeat<2, plain<Norm, 4>>, halving<Norm, 8>,
                             plain<Norm, 8>, halving<Norm, 12>, plain<Norm, 12>, global_avg_pool2d, linear<10>>;

trireme_golden::file const golden("small_resnet");

float golden_rate() { return static_cast<float>(golden.number("learning_rate")); }

using precise = any_layout<small_resnet<batch_norm<per_shard>>, sgd, precision<f64>>;
using synchronised_trainer =
    trainer<small_resnet<batch_norm<synchronised>>, cross_entropy, sgd, on<mesh<host, dp<dynamic>>>, precision<f64>>;

} // namespace

TEST_SUITE("trainer/residual") {
    TEST_CASE("losses, running statistics and evaluation equal PyTorch's") {
        precise t({.learning_rate = golden_rate(), .batch = 64});
        has_losses(t, golden, 1e-7, sanitized ? 1 : npos);
        if (sanitized) {
            MESSAGE("left out: under a sanitizer, statistics and evaluation");
            return;
        }
        auto const statistics = golden.numbers("first_statistics");
        REQUIRE(statistics.size() == 8);
        for (std::size_t i = 0; i < 8; ++i)
            CHECK(t.gather_buffers()[i] == doctest::Approx(statistics[i]).epsilon(1e-6));
        CHECK(t.evaluate(training_images().take(0, 256)).loss ==
              doctest::Approx(golden.number("evaluated")).epsilon(1e-6));
    }

    TEST_CASE("synchronised batch norm: losses equal PyTorch's on any number of devices, some with fewer samples") {
        for (int const devices : sanitized ? std::vector{3} : std::vector{1, 3, 4}) {
            synchronised_trainer t({.learning_rate = golden_rate(), .batch = 64}, {.devices = devices});
            has_losses(t, golden, 1e-7, sanitized ? 1 : 5); // the last batch is smaller
        }
    }

    TEST_CASE("dropout: other values in every step, layer and shard, the same on any number of devices") {
        using net = network<input<1, 28, 28>, flatten, linear<32>, relu, dropout<percent<50>>, linear<16>,
                            dropout<percent<20>>, linear<10>>;
        using t = any_layout<net>;
        auto const of = [](int devices) {
            return trained<t>({{.batch = 64, .logical_shards = 4}, {.devices = devices}}, {64, 64, 37, 64});
        };
        auto const one = of(1);
        CHECK(of(2) == one);
        CHECK(of(4) == one);
        t still({.learning_rate = 0.0f, .batch = 64, .seed = 5}); // nothing changes but what is dropped
        auto const images = training_images().take(0, 64);
        CHECK(still.step(images).loss != still.step(images).loss);
        CHECK(still.evaluate(images).loss == still.evaluate(images).loss);
    }
}

} // namespace trainer_residual_test
