// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Losses in which samples count differently, on accelerators that are rehearsed.

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/regression.hpp>
#include <support/weighing.hpp>

#include <trireme/rehearsal.hpp>

#include <cstddef>
#include <vector>

namespace rehearsed_weighted_losses_test {
using namespace trireme;
using namespace rehearsed;
using namespace test_weighing;

namespace {

template<class Device, class Network, class Loss, class... Policies>
using any = trainer<Network, Loss, sgd, on<mesh<Device, dp<dynamic>, pp<dynamic>>>, reproducible<fixed_tree, dynamic>,
                    Policies...>;

/// Losses of steps on a batch, on more than a batch, on some of which none counts; of tests; and all parameters.
template<class Trainer>
std::vector<double> steps_of(Trainer& t) {
    labelled_table const all(48), more(131, 2), few(7, 4);
    auto const none = labelled_table(100, 6).leave_out_all(); // more than a batch, too
    std::vector<double> told;
    for (auto const* batch : {&all, &more, &none, &few, &more}) {
        told.push_back(t.step(*batch).loss);
        auto const e = t.evaluate(more);
        told.insert(told.end(), {e.loss, e.accuracy});
    }
    for (double const x : t.gather_parameters()) told.push_back(x);
    return told;
}

} // namespace

TEST_SUITE("rehearsed/weighted_losses") {
    TEST_CASE("samples that count differently train as on one device, in stages, too") {
        using t = any<rehearsal, net, weighing>;
        t::options const training{.learning_rate = 0.3f, .batch = 48, .seed = 5, .logical_shards = 6};
        auto const told = has_one_devices_bits_in_stages<t>(training, 2, [](t& one) { return train(one); });
        CHECK(told[2] == 0);
    }

    TEST_CASE("steps of any size are those of the host") {
        auto const trained = []<class Device>(Device, int devices) {
            using t = any<Device, plain_net, weighing, precision<f64>>;
            t one({.learning_rate = 0.3f, .batch = 48, .seed = 5, .logical_shards = 6}, {.devices = devices});
            return steps_of(one);
        };
        auto const wanted = trained(host{}, 1);
        CHECK(wanted[6] == 0);
        for (int const devices : {1, 2})
            for (auto const& how : orders) {
                on_stage const as_told(how.when, how.seed);
                auto const found = trained(rehearsal{}, devices);
                REQUIRE(found.size() == wanted.size());
                CHECK(found[6] == 0);
                for (std::size_t i = 0; i < wanted.size(); ++i)
                    CHECK(found[i] == doctest::Approx(wanted[i]).epsilon(1e-11).scale(1.0));
            }
    }

    TEST_CASE("losses of values are those of the host") {
        using test_regression::made_up_table;
        auto const trained = []<class Device, class Loss>(Device, Loss) {
            using t = any<Device, network<input<6>, linear<40>, sigmoid, linear<3>>, Loss, precision<f64>>;
            t one({.learning_rate = 0.3f, .batch = 40, .seed = 5, .logical_shards = 4}, {.devices = 2});
            std::vector<double> told;
            for (std::size_t const n : {40u, 40u, 90u, 11u}) {
                made_up_table<float> const samples(n, n);
                told.push_back(one.step(samples).loss);
                told.push_back(one.evaluate(samples).loss);
            }
            for (double const x : one.gather_parameters()) told.push_back(x);
            return told;
        };
        auto const same = [&](auto loss) {
            auto const wanted = trained(host{}, loss);
            on_stage const as_told(timing::shuffled, 2);
            auto const found = trained(rehearsal{}, loss);
            REQUIRE(found.size() == wanted.size());
            for (std::size_t i = 0; i < wanted.size(); ++i)
                CHECK(found[i] == doctest::Approx(wanted[i]).epsilon(1e-11).scale(1.0));
        };
        same(mean_squared_error{});
        same(binary_cross_entropy{});
    }

    TEST_CASE("in bf16 losses are near those in float") {
        using test_regression::made_up_table;
        auto const of = []<class Loss, class Dtype>(Loss, Dtype, auto const& samples) {
            on_stage const as_usual;
            constexpr std::size_t outputs = Loss::describe(make_shape(5)).classes == 0 ? 3 : 5;
            using small = network<input<6>, linear<8>, sigmoid, linear<outputs>>;
            any<rehearsal, small, Loss, precision<Dtype>> t({.learning_rate = 0.3f, .batch = 40, .seed = 5});
            double const first = t.step(samples).loss;
            return std::vector<double>{first, t.step(samples).loss, t.evaluate(samples).loss};
        };
        auto const near = [&](auto loss, auto const& samples) {
            auto const wide = of(loss, f32{}, samples), narrow = of(loss, bf16{}, samples);
            for (std::size_t i = 0; i < wide.size(); ++i) CHECK(narrow[i] == doctest::Approx(wide[i]).epsilon(0.02));
        };
        near(weighing{}, labelled_table(40));
        near(mean_squared_error{}, made_up_table<float>(40));
        near(binary_cross_entropy{}, made_up_table<float>(40));
    }
}

} // namespace rehearsed_weighted_losses_test
