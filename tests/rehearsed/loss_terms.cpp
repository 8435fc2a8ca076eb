// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Layers that add to the loss, on accelerators that are rehearsed.

#include <doctest/doctest.h>
#include <rehearsed/trainings.hpp>
#include <support/penalties.hpp>

#include <trireme/rehearsal.hpp>

#include <cstddef>
#include <vector>

namespace rehearsed_loss_terms_test {
using namespace trireme;
using namespace rehearsed;
using namespace test_penalties;
using test_regression::made_up_table;

namespace {

template<class Device, class Network, class... Policies>
using any = trainer<Network, mean_squared_error, sgd, on<mesh<Device, dp<dynamic>, pp<dynamic>>>,
                    reproducible<fixed_tree, dynamic>, Policies...>;

} // namespace

TEST_SUITE("rehearsed/loss_terms") {
    TEST_CASE("terms of any stage train as on one device, in memory as planned") {
        using t = any<rehearsal, net_everywhere>;
        t::options const training{.learning_rate = 0.1f, .batch = 48, .seed = 5, .logical_shards = 6};
        has_one_devices_bits_in_stages<t>(training, 3, [](t& one) { return train(one); });
    }

    TEST_CASE("losses and weights are those of the host, of steps larger than a batch, too") {
        auto const trained = []<class Device>(Device, int devices) {
            using t = any<Device, network<input<6>, linear<40>, activity_penalty<percent<50>>, sigmoid, linear<3>>,
                          precision<f64>>;
            t one({.learning_rate = 0.3f, .batch = 40, .seed = 5, .logical_shards = 4}, {.devices = devices});
            std::vector<double> told;
            for (std::size_t const n : {40u, 40u, 90u, 11u}) {
                made_up_table<float> const samples(n, n);
                told.push_back(one.step(samples).loss);
                told.push_back(one.evaluate(samples).loss);
            }
            for (double const x : one.gather_parameters()) told.push_back(x);
            return told;
        };
        auto const wanted = trained(host{}, 1);
        for (int const devices : {1, 2})
            for (auto const& how : orders) {
                on_stage const as_told(how.when, how.seed);
                auto const found = trained(rehearsal{}, devices);
                REQUIRE(found.size() == wanted.size());
                for (std::size_t i = 0; i < wanted.size(); ++i)
                    CHECK(found[i] == doctest::Approx(wanted[i]).epsilon(1e-11).scale(1.0));
            }
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
        auto const wide = of(f32{}), narrow = of(bf16{});
        for (std::size_t i = 0; i < wide.size(); ++i) CHECK(narrow[i] == doctest::Approx(wide[i]).epsilon(0.02));
    }
}

} // namespace rehearsed_loss_terms_test
