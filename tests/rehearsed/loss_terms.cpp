// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Layers that add to the loss, on accelerators that are rehearsed.

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/compare.hpp>
#include <support/networks.hpp>
#include <support/penalties.hpp>

#include <trireme/rehearsal.hpp>

#include <vector>

namespace rehearsed_loss_terms_test {
using namespace trireme;
using namespace rehearsed;
using namespace test_penalties;
using test_regression::made_up_table;

namespace {

template<class Device, class Network, class... Policies>
using any = test_networks::any_stages<Device, Network, mean_squared_error, sgd, Policies...>;

} // namespace

TEST_SUITE("rehearsed/loss_terms") {
    TEST_CASE("terms of any stage train as on one device, in memory as planned") {
        using t = any<rehearsal, net_everywhere>;
        t::options const training{.learning_rate = 0.1f, .batch = 48, .seed = 5, .logical_shards = 6};
        has_one_devices_bits_in_stages<t>(training, 3, [](t& one) { return train(one); });
    }

    TEST_CASE("losses and weights are those of the host, of steps larger than a batch, too") {
        has_the_hosts_numbers(1e-11, []<class Device>(Device, int devices) {
            using t = any<Device, network<input<6>, linear<40>, activity_penalty<percent<50>>, sigmoid, linear<3>>,
                          precision<f64>>;
            t one({.learning_rate = 0.3f, .batch = 40, .seed = 5, .logical_shards = 4}, {.devices = devices});
            return test_regression::steps_of_any_size(one);
        });
    }

    TEST_CASE("in bf16 losses are near those in float") {
        auto const of = []<class Dtype>(Dtype) {
            on_stage const as_usual;
            using small = network<input<6>, linear<8>, activity_penalty<percent<50>>, sigmoid, linear<3>>;
            any<rehearsal, small, precision<Dtype>> t({.learning_rate = 0.3f, .batch = 40, .seed = 5});
            made_up_table<float> const samples(40);
            double const first = t.step(samples).loss;
            return std::vector<double>{first, t.step(samples).loss};
        };
        CHECK(test_support::apart(of(bf16{}), of(f32{})) < 0.02);
    }
}

} // namespace rehearsed_loss_terms_test
