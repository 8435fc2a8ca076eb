// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A loss that is not finite stops all devices at one step, and leaves what was there before.

#include <trireme/schedules.hpp>

#include <doctest/doctest.h>
#include <support/diverging.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace trainer_divergence_test {
using namespace trireme;
using namespace test_diverging;

TEST_SUITE("trainer/divergence") {
    TEST_CASE("weights, statistics and the optimizer's numbers are those of the step before") {
        for (auto const& layout : {std::pair{1, 1}, {2, 1}, {3, 1}, {1, 2}, {1, 3}, {2, 2}})
            for (std::size_t const shards : {0u, 6u})
                for (float const bad : {std::numeric_limits<float>::quiet_NaN(), 3e38f}) {
                    int const devices = layout.first, stages = layout.second;
                    CAPTURE(devices);
                    CAPTURE(stages);
                    CAPTURE(shards);
                    CAPTURE(bad);
                    leaves_all_as_it_was<any_trainer<>>(devices, stages, shards, bad);
                    leaves_all_as_it_was<any_trainer<clip_norm>>(devices, stages, shards, bad);
                    if (stages != 2) continue;
                    leaves_all_as_it_was<any_trainer<>>(devices, stages, shards, bad, zero_bubble_v{});
                    leaves_all_as_it_was<any_trainer<clip_norm>>(devices, stages, shards, bad, interleaved<2>{});
                }
    }

    TEST_CASE("a gradient that is not finite while the loss is changes the weights, and the next loss tells") {
        for (auto const& layout : {std::pair{1, 1}, {2, 1}, {3, 1}, {1, 2}, {1, 3}, {2, 2}})
            for (std::size_t const shards : {0u, 6u}) {
                int const devices = layout.first, stages = layout.second;
                CAPTURE(devices);
                CAPTURE(stages);
                CAPTURE(shards);
                shows_in_the_next_loss<any_trainer_with<pitfalls>>(devices, stages, shards);
                shows_in_the_next_loss<any_trainer_with<pitfalls, clip_norm>>(devices, stages, shards);
                if (stages != 2) continue;
                shows_in_the_next_loss<any_trainer_with<pitfalls>>(devices, stages, shards, zero_bubble_v{});
                shows_in_the_next_loss<any_trainer_with<pitfalls, clip_norm>>(devices, stages, shards, zero_bubble_v{});
            }
    }

    TEST_CASE("gradients that are infinite as soon as they are added are no loss that is lost") {
        using line = network<input<1>, linear<1>>;
        using any = trainer<line, mean_squared_error, sgd, on<mesh<host, dp<dynamic>>>>;
        using fixed = trainer<line, mean_squared_error, sgd, on<mesh<host, dp<dynamic>>>, reproducible<fixed_tree, 4>>;
        std::vector<float> const inputs(4, 1.2e20f), targets{-5e18f, -5e18f, 5e18f, 5e18f};
        samples_in_memory const all{inputs, make_shape(1), targets, make_shape(1)};
        auto const steps = [&]<class Trainer>(std::type_identity<Trainer>) {
            for (int const devices : {1, 2, 4}) {
                CAPTURE(devices);
                Trainer t({.learning_rate = 1e-30f, .batch = 4}, {.devices = devices});
                t.load_parameters(std::vector<float>{0, 0});
                CHECK(std::isfinite(t.step(all).loss));
                CHECK(!std::isfinite(t.gather_parameters()[0]));
                CHECK(divergence_of([&] { t.step(all); }) == intact);
            }
        };
        steps(std::type_identity<any>{});
        steps(std::type_identity<fixed>{});
    }

    TEST_CASE("a stage without parameters counts no update that the others have not made") {
        using in_stages = trainer<network<input<4>, relu, linear<3>>, mean_squared_error, adam,
                                  on<mesh<host, dp<dynamic>, pp<2>>>, stages_by<cut_before<1>>>;
        std::vector<float> const inputs(4 * 24, 0.5f), targets(3 * 24, 0.25f);
        auto bad_targets = targets;
        bad_targets[60] = std::numeric_limits<float>::infinity(); // of the last replica's
        samples_in_memory const good{inputs, make_shape(4), targets, make_shape(3)},
            bad{inputs, make_shape(4), bad_targets, make_shape(3)};
        for (int const devices : {1, 2}) {
            CAPTURE(devices);
            in_stages t({.learning_rate = 0.01f, .batch = 24}, {.devices = devices, .micro_batches = 2});
            t.step(good);
            CHECK(divergence_of([&] { t.step(bad); }) == intact);
            CHECK(t.snapshot().updates == 1);
            t.step(good);
            CHECK(t.snapshot().updates == 2);
            auto const line = to_string(t.train(training_set{good, good}, {.epochs = 1}));
            CHECK(line.find("  test loss 0.") != std::string::npos);
            CHECK(line.find("accuracy") == std::string::npos);
        }
    }

    TEST_CASE("an epoch ends with the step, on all devices") {
        for (int const devices : {1, 2, 3}) {
            CAPTURE(devices);
            ends_an_epoch<any_trainer<>>(devices, 1, 0, true);
            ends_an_epoch<any_trainer<>>(devices, 2, 6, true);
        }
    }

    TEST_CASE("weights that are updated on the way have been changed, and the error says so") {
        trainer<table_network, mean_squared_error, adam, on<mesh<host, dp<2>>>, hold_weights<once>> t{{.batch = 24}};
        table const good(24);
        t.step(good);
        CHECK(divergence_of([&] { t.step(table(24, 5, std::numeric_limits<float>::infinity())); }) == changed);
        trainer<table_network, mean_squared_error, adam, hold_weights<once>> one{{.batch = 24}};
        CHECK(divergence_of([&] { one.step(table(24, 5, std::numeric_limits<float>::infinity())); }) == intact);
    }
}

} // namespace trainer_divergence_test
