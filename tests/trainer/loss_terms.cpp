// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Trainings in which layers add to the loss.

#include <trireme/layer/gradient_check.hpp>
#include <trireme/reference.hpp>
#include <trireme/schedules.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/allocation_hook.hpp>
#include <support/arenas.hpp>
#include <support/compare.hpp>
#include <support/layouts.hpp>
#include <support/networks.hpp>
#include <support/penalties.hpp>
#include <support/regression.hpp>
#include <support/weighing.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace trainer_loss_terms_test {
using namespace trireme;
using namespace test_penalties;
using test_networks::weights;
using test_regression::made_up_table;
using test_support::same_bits;

namespace {

template<class Network, class Loss, class... Policies>
using any = test_networks::any_stages<host, Network, Loss, sgd, Policies...>;

/// The loss of a step on a table, with what layers add, and of an evaluation.
struct losses {
    double trained = 0, evaluated = 0;

    losses(std::vector<double> const& p, made_up_table<double> const& table) {
        for (std::size_t s = 0; s < table.size(); ++s) {
            std::vector<double> x(&table.inputs[6 * s], &table.inputs[6 * s] + 6);
            for (double& each : x) each *= 0.01;
            by_hand const one(p, x);
            double error = 0;
            for (std::size_t i = 0; i < 3; ++i)
                error += std::pow(one.out[i] - static_cast<double>(table.targets[3 * s + i]), 2) / 3;
            evaluated += error / static_cast<double>(table.size());
            trained += (error + one.added) / static_cast<double>(table.size());
        }
    }
};

/// A layer whose term is no finite number when its first input is large.
struct fragile {
    static constexpr layer_description describe(shape in) noexcept {
        layer_description d;
        d.output = in;
        d.adds_to_loss = true;
        return d;
    }
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.x[i];
        for (std::size_t lane = 0; lane < io_t::lanes && io.place.loss != nullptr; ++lane)
            io.place.loss[lane] = io.x[lane] > 100 ? std::numeric_limits<float>::infinity() : 0;
    }
    static void backward_input(auto const& io) {
        for (std::size_t i = 0; i < io.dx.size(); ++i) io.dx[i] = io.dy[i];
    }
};

} // namespace

TEST_SUITE("trainer/loss_terms") {
    TEST_CASE("gradients of layers that add to the loss are those of the whole loss") {
        CHECK(check_gradients<near_one, input<7>>().ok());
        CHECK(check_gradients<activity_penalty<percent<40>>, input<7>>().ok());
        CHECK(check_gradients<activity_penalty<percent<40>>, input<3, 4, 4>, reference>().ok());
        CHECK(
            check_gradients<sequential<linear<5>, near_one, sigmoid, activity_penalty<percent<250>>>, input<7>>().ok());
        CHECK(check_gradients<residual<sequential<linear<7>, activity_penalty<percent<90>>>>, input<7>>().ok());
    }

    TEST_CASE_TEMPLATE("a step's loss has the terms, and its gradient theirs, as by hand", Kernels, portable,
                       reference) {
        using t = any<net, mean_squared_error, kernels<Kernels>, precision<f64>>;
        made_up_table<double> const table(21);
        for (auto const& layout : {std::pair{1, 1}, {3, 1}, {1, 3}, {2, 2}}) {
            int const devices = layout.first, stages = layout.second;
            CAPTURE(devices);
            CAPTURE(stages);
            t one({.learning_rate = 0.25f, .batch = 21, .logical_shards = 6}, {.devices = devices, .stages = stages});
            auto const before = weights(one);
            losses const wanted(before, table);
            CHECK(one.evaluate(table).loss == doctest::Approx(wanted.evaluated).epsilon(1e-12));
            CHECK(one.step(table).loss == doctest::Approx(wanted.trained).epsilon(1e-12));
            auto const after = weights(one);
            for (std::size_t i = 0; i < before.size(); ++i) {
                auto above = before, below = before;
                above[i] += 1e-5;
                below[i] -= 1e-5;
                double const slope = (losses(above, table).trained - losses(below, table).trained) / 2e-5;
                CHECK((before[i] - after[i]) / 0.25 == doctest::Approx(slope).epsilon(1e-7).scale(1.0));
            }
        }
    }

    TEST_CASE("trainings have one device's bits on any devices and stages, and what they take is planned") {
        watchdog const guard("terms of the loss on devices and stages");
        auto const on_all = [](auto none, std::size_t shards = 6) {
            using t = typename decltype(none)::type;
            return test_layouts::have_one_devices_bits<t>(
                {.learning_rate = 0.1f, .batch = 48, .seed = 5, .logical_shards = shards},
                {{2, 1}, {3, 1}, {1, 2}, {1, 3}, {2, 3}, {3, 2}}, [](t& one) { return train(one); },
                test_support::as_planned);
        };
        auto const plain = on_all(std::type_identity<any<net, mean_squared_error>>{});
        CHECK(same_bits(on_all(std::type_identity<any<net, mean_squared_error, recompute<all>>>{}), plain));
        on_all(std::type_identity<any<net_everywhere, mean_squared_error>>{});
        on_all(std::type_identity<any<net, mean_squared_error, accumulate<2>>>{}, 12);
        on_all(std::type_identity<any<net, mean_squared_error, clip_norm>>{});
        any<net, mean_squared_error> halves({.learning_rate = 0.1f, .batch = 48, .seed = 5, .logical_shards = 6},
                                            {.devices = 2, .stages = 3, .schedule = zero_bubble_h1{}});
        CHECK(same_bits(train(halves), plain));
    }

    TEST_CASE("terms are divided by what the loss divides by") {
        using weighed =
            any<network<input<6>, linear<5>, activity_penalty<percent<100>>>, test_weighing::weighing, precision<f64>>;
        using plain = any<network<input<6>, linear<5>>, test_weighing::weighing, precision<f64>>;
        test_weighing::labelled_table const table(40);
        weighed t({.batch = 40});
        plain without({.batch = 40});
        auto const p = weights(t);
        double squares = 0;
        for (std::size_t s = 0; s < table.size(); ++s)
            for (std::size_t o = 0; o < 5; ++o) {
                double y = p[30 + o];
                for (std::size_t i = 0; i < 6; ++i) y += p[6 * o + i] * static_cast<double>(table.inputs[6 * s + i]);
                squares += y * y / 5;
            }
        double const loss = t.step(table).loss, alone = without.step(table).loss;
        CHECK(loss == doctest::Approx(alone + squares / table.weight().sum).epsilon(1e-12));
    }

    TEST_CASE("a term that is no finite number stops a training before its weights change, in any stage") {
        using t = any<network<input<6>, linear<4>, fragile, linear<4>, sigmoid, linear<3>>, mean_squared_error>;
        made_up_table<float> const good(16);
        auto bad = good;
        for (auto& x : bad.inputs) x = 1e7f;
        for (auto const& layout : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 3}}) {
            int const devices = layout.first, stages = layout.second;
            t one({.batch = 16, .logical_shards = 4}, {.devices = devices, .stages = stages});
            one.load_parameters(std::vector<float>(one.gather_parameters().size(), 0.1f));
            one.step(good);
            auto const before = weights(one);
            CHECK_THROWS_AS(one.step(bad), divergence_error);
            CHECK(same_bits(weights(one), before));
            CHECK(std::isfinite(one.step(good).loss));
        }
    }

    TEST_CASE("a step allocates nothing") {
        any<net, mean_squared_error> t({.batch = 48, .logical_shards = 6}, {.devices = 1, .stages = 3});
        made_up_table<float> const table(48);
        sample_set const samples = table;
        t.step(samples);
        auto const before = allocation_hook::allocations.load();
        for (int k = 0; k < 3; ++k) t.step(samples);
        CHECK(allocation_hook::allocations == before);
    }
}

} // namespace trainer_loss_terms_test
