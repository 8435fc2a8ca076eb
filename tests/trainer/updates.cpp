// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <doctest/doctest.h>
#include <support/fading.hpp>
#include <support/networks.hpp>

#include <memory>

namespace trainer_updates_test {
using namespace trireme;
using test_fading::fades;
using test_fading::fading_sgd;
using test_networks::made_up;
using test_networks::small;

namespace {

template<class Optimizer, class... Policies>
using program = trainer<small, cross_entropy, Optimizer, on<mesh<host, dp<dynamic>, pp<dynamic>>>, Policies...>;

template<class... Policies>
void fades_on(int devices, int stages) {
    CAPTURE(devices);
    CAPTURE(stages);
    auto const make = [&]<class Optimizer>(Optimizer) {
        using t = program<Optimizer, Policies...>;
        return std::make_unique<t>(typename t::options{.learning_rate = 0.5f, .batch = 24},
                                   typename t::run_options{.devices = devices, .stages = stages});
    };
    CHECK(fades([&] { return make(fading_sgd{}); }, [&] { return make(sgd{}); }, made_up(24)));
}

} // namespace

TEST_SUITE("trainer/updates") {
    TEST_CASE("an optimizer that counts its updates knows how many it has made, on any device") {
        for (int const devices : {1, 3})
            for (int const stages : {1, 2}) fades_on<>(devices, stages);
        fades_on<reduce_by<ring, bucket<1_KiB>>>(2, 1);
        fades_on<reproducible<fixed_tree, 6>>(3, 2);
    }

    TEST_CASE("so it does where devices hold one copy of the weights, each with a slice of the state") {
        using plain = trainer<small, cross_entropy, sgd, on<mesh<host, dp<3>>>, hold_weights<once>>;
        using fading = trainer<small, cross_entropy, fading_sgd, on<mesh<host, dp<3>>>, hold_weights<once>>;
        CHECK(fades([] { return std::make_unique<fading>(fading::options{.learning_rate = 0.5f, .batch = 24}); },
                    [] { return std::make_unique<plain>(plain::options{.learning_rate = 0.5f, .batch = 24}); },
                    made_up(24)));
    }

    TEST_CASE("the count is in the plan, of those who want it alone") {
        using plain = program<sgd>;
        using fading = program<fading_sgd>;
        CHECK(plain({.batch = 24}).plan().memory().optimizer_state == 0);
        CHECK(fading({.batch = 24}).plan().memory().optimizer_state == cache_line);
    }
}

} // namespace trainer_updates_test
