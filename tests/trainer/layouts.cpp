// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/floats.hpp>
#include <support/networks.hpp>
#include <support/training.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

namespace trainer_layouts_test {
using namespace trireme;
using namespace test_networks;

namespace {

using small_trainer = any_layout<small, sgd_momentum>;

strategy_choice const strategies[] = {ring{}, double_binary_tree{}, direct{}};

/// A device does these tasks in a step, a letter per task: train, collective, update.
std::string letters(step_program const& p) {
    std::string all;
    for (auto const& t : p.list(0)) all += name_of(t.kind)[0];
    return all;
}

} // namespace

TEST_SUITE("trainer/layouts") {
    TEST_CASE("bits do not depend on the floating-point environment of the caller's thread, which stays as it is") {
        auto const images = made_up(100);
        auto const trained = [&](int devices, other_floats const* which) {
            small_trainer t({.learning_rate = 0.05f, .batch = 64, .seed = 9, .logical_shards = 8},
                            {.devices = devices});
            t.load_parameters(denormal_weights(small::parameters));
            std::optional<in_other_floats> other;
            if (which != nullptr) other.emplace(*which); // the other threads are there, and keep their own
            outcome<float> r;
            r.told.push_back(t.step(images.take(0, 37)).loss);
            for (auto const& e : t.fit({images, images.take(0, 35)}, {.epochs = 1}))
                r.told.insert(r.told.end(), {e.loss, e.test.loss, e.test.accuracy});
            if (which != nullptr) CHECK(other->holds());
            other.reset();
            r.numbers = weights(t);
            for (int d = 1; d < devices; ++d) CHECK(same_bits(r.numbers, weights(t, d)));
            return r;
        };
        auto const want = trained(1, nullptr);
        CHECK(std::ranges::count_if(want.numbers, [](float w) { return std::fpclassify(w) == FP_SUBNORMAL; }) > 10);
        for (auto const which : all_other_floats())
            for (int const devices : {1, 2}) {
                CAPTURE(static_cast<int>(which));
                CAPTURE(devices);
                CHECK(trained(devices, &which) == want);
            }
    }

    TEST_CASE("a step is a program: logical shards are its micro-batches, however they fall to the devices") {
        small_trainer const one({.batch = 64}, {.devices = 1});
        CHECK(letters(one.program(0)) == "tu");
        small_trainer const uneven({.batch = 64, .logical_shards = 8}, {.devices = 3});
        CHECK(letters(uneven.program(0)) == "ttcu");
        CHECK(letters(uneven.program(2)) == "tttcu");
        CHECK_THROWS_AS(uneven.program(3), usage_error);
        for (int const rank : {0, 1, 2}) CHECK(verify(uneven.program(rank), by_rendezvous).ok());
        trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<2>>>, reduce_by<ring, bucket<16_KiB>>> const cut;
        CHECK(letters(cut.program(1)) == 't' + std::string(cut.plan().layout.reductions(), 'c') + 'u');
        CHECK(cut.plan().layout.reductions() > 1);
        trainer<small, cross_entropy, sgd, on<mesh<host, dp<2>>>, hold_weights<once>> const held_once;
        CHECK(letters(held_once.program(0)) == "tc"); // updated on the way
    }

    TEST_CASE("static types and options mean the same program") {
        using fixed = trainer<small, cross_entropy, sgd_momentum, reduce_by<ring>, on<mesh<host, dp<3>>>>;
        auto const images = made_up(100);
        fixed a({.batch = 50, .seed = 4});
        small_trainer b({.batch = 50, .seed = 4}, {.devices = 3, .strategy = ring{}});
        for (auto const first : {0u, 50u})
            CHECK(a.step(images.take(first, 50)).loss == b.step(images.take(first, 50)).loss);
        CHECK(same_bits(weights(a), weights(b)));
    }

    TEST_CASE("64 devices on whatever cores there are finish") {
        auto const images = made_up(256);
        for (auto const& s : strategies) {
            CAPTURE(s.name);
            small_trainer t({.batch = 256, .seed = 1}, {.devices = 64, .strategy = s});
            for (int k = 0; k < 3; ++k) CHECK(t.step(images).loss > 0);
        }
    }
}

} // namespace trainer_layouts_test
