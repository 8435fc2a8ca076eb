// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A network that everybody knows, in compositions as one would name them, and as many stages as there may be: the bits
// of one device.

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/networks.hpp>
#include <support/six_compositions.hpp>

#include <cstddef>
#include <vector>

namespace trainer_compositions_test {
using namespace trireme;
using test_networks::lenet;
using test_networks::made_up;

TEST_SUITE("trainer/compositions") {
    TEST_CASE("LeNet learns the same in six compositions") {
        watchdog const guard("compositions of LeNet");
        test_compositions::six_compositions<lenet, f64>(10);
    }

    TEST_CASE("as many stages as there may be, many more than cores, come to an end, and to the bits of one device") {
        watchdog const guard("64 stages");
        using deep =
            network<input<1, 28, 28>, flatten, linear<8>, repeat<70, linear<8>, hyperbolic_tangent>, linear<10>>;
        using t = trainer<deep, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>, pp<dynamic>>>,
                          reproducible<fixed_tree, 128>>;
        auto const trained = [](int stages, schedule_choice const& schedule) {
            t some({.learning_rate = 0.05f, .batch = 256, .seed = 7}, {.stages = stages, .schedule = schedule});
            std::vector<double> all;
            for (std::size_t const n : {256u, 60u}) all.push_back(some.step(made_up(n)).loss);
            for (auto const x : some.gather_parameters()) all.push_back(x);
            return all;
        };
        auto const wanted = trained(1, {});
        for (auto const& schedule : {schedule_choice(one_f_one_b{}), schedule_choice(zero_bubble_h1{})})
            CHECK(trained(max_roles, schedule) == wanted);
    }
}

} // namespace trainer_compositions_test
