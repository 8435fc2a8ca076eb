// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Losses in which samples count differently, on accelerators that are rehearsed.

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/compare.hpp>
#include <support/networks.hpp>
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
using any = test_networks::any_stages<Device, Network, Loss, sgd, Policies...>;

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
        has_the_hosts_numbers(1e-11, []<class Device>(Device, int devices) {
            using t = any<Device, plain_net, weighing, precision<f64>>;
            t one({.learning_rate = 0.3f, .batch = 48, .seed = 5, .logical_shards = 6}, {.devices = devices});
            auto const told = steps_of(one);
            CHECK(told[6] == 0);
            return told;
        });
    }

    TEST_CASE("losses of values are those of the host") {
        auto const trained = []<class Device, class Loss>(Device, Loss) {
            using t = any<Device, network<input<6>, linear<40>, sigmoid, linear<3>>, Loss, precision<f64>>;
            t one({.learning_rate = 0.3f, .batch = 40, .seed = 5, .logical_shards = 4}, {.devices = 2});
            return test_regression::steps_of_any_size<test_regression::made_up_shares>(one);
        };
        auto const same = [&](auto loss) {
            on_stage const as_told(timing::shuffled, 2);
            CHECK(test_support::apart(trained(rehearsal{}, loss), trained(host{}, loss)) < 1e-11);
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
            CHECK(test_support::apart(of(loss, bf16{}, samples), of(loss, f32{}, samples)) < 0.02);
        };
        near(weighing{}, labelled_table(40));
        near(mean_squared_error{}, made_up_table<float>(40));
        near(binary_cross_entropy{}, test_regression::made_up_shares(40));
    }
}

} // namespace rehearsed_weighted_losses_test
