// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/floats.hpp>
#include <support/networks.hpp>

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

struct run {
    std::vector<double> losses;
    std::vector<float> weights;
};

/// A few steps with batches of the given sizes.
run train(small_trainer::options const& options, std::vector<std::size_t> const& sizes) {
    auto const images = made_up(500);
    small_trainer t(options);
    run r;
    std::size_t first = 0;
    for (auto const n : sizes) {
        r.losses.push_back(t.step(images.take(first, n)).loss);
        first += n;
    }
    r.weights = weights(t);
    for (int d = 1; d < t.devices(); ++d) CHECK(same_bits(r.weights, weights(t, d))); // replicas never drift apart
    return r;
}

strategy_choice const strategies[] = {ring{}, double_binary_tree{}, direct{}};
std::vector<std::size_t> const even = {64, 64, 64, 64};
std::vector<std::size_t> const uneven = {64, 37, 1, 7, 65, 3, 16, 8};

} // namespace

TEST_SUITE("trainer/layouts") {
    TEST_CASE("any number of devices, any strategy, even and uneven batches: the same losses") {
        for (auto const& sizes : {even, uneven}) {
            auto const one = train({.learning_rate = 0.05f, .batch = 64, .seed = 3}, sizes);
            for (int const devices : {1, 2, 3, 4, 8})
                for (auto const& s : strategies) {
                    CAPTURE(devices);
                    CAPTURE(s.name);
                    auto const many = train(
                        {.learning_rate = 0.05f, .batch = 64, .seed = 3, .devices = devices, .strategy = s}, sizes);
                    for (std::size_t k = 0; k < sizes.size(); ++k)
                        CHECK(many.losses[k] == doctest::Approx(one.losses[k]).epsilon(1e-5));
                    for (std::size_t i = 0; i < one.weights.size(); ++i)
                        CHECK(many.weights[i] == doctest::Approx(one.weights[i]).epsilon(1e-4).scale(1.0));
                }
        }
    }

    TEST_CASE("each strategy gives the same bits from run to run") {
        for (int const devices : {2, 3, 8})
            for (auto const& s : strategies) {
                CAPTURE(devices);
                CAPTURE(s.name);
                small_trainer::options const o{.batch = 64, .seed = 5, .devices = devices, .strategy = s};
                auto const a = train(o, uneven);
                auto const b = train(o, uneven);
                CHECK(same_bits(a.weights, b.weights));
                CHECK(same_bits(a.losses, b.losses));
            }
    }

    TEST_CASE("reproducible: the same bits for 1, 2, 3, 4, 5, 7 and 8 devices") {
        auto const one = train({.batch = 64, .seed = 9, .logical_shards = 8}, uneven);
        for (int const devices : {2, 3, 4, 5, 7, 8}) {
            CAPTURE(devices);
            auto const many = train({.batch = 64, .seed = 9, .devices = devices, .logical_shards = 8}, uneven);
            CHECK(same_bits(one.weights, many.weights));
            CHECK(same_bits(one.losses, many.losses));
        }
        // the guard can fail: without logical shards the bits depend on the number of devices
        auto const plain_1 = train({.batch = 64, .seed = 9}, uneven);
        auto const plain_3 = train({.batch = 64, .seed = 9, .devices = 3}, uneven);
        CHECK_FALSE(same_bits(plain_1.weights, plain_3.weights));
    }

    TEST_CASE("reproducible LeNet over an epoch with a short last batch, test included") {
        auto const images = made_up(300);
        using lenet_trainer = any_layout<lenet>;
        std::vector<float> bits;
        for (int const devices : {1, 2, 5}) {
            lenet_trainer t({.learning_rate = 0.5f, .batch = 64, .seed = 2, .devices = devices, .logical_shards = 8});
            epoch_report last;
            for (auto const& e : t.fit({images, images.take(0, 99)}, {.epochs = 1})) last = e;
            static epoch_report first;
            if (devices == 1) {
                bits = weights(t);
                first = last;
            }
            CHECK(same_bits(bits, weights(t)));
            CHECK(std::memcmp(&first.loss, &last.loss, sizeof first.loss) == 0);
            CHECK(std::memcmp(&first.test.loss, &last.test.loss, sizeof first.loss) == 0);
            CHECK(first.test.accuracy == last.test.accuracy);
        }
    }

    TEST_CASE("bits do not depend on the floating-point environment of the caller's thread, which stays as it is") {
        auto const images = made_up(100);
        auto const trained = [&](int devices, other_floats const* which) {
            small_trainer t({.learning_rate = 0.05f, .batch = 64, .seed = 9, .devices = devices, .logical_shards = 8});
            t.load_parameters(denormal_weights(small::parameters));
            std::optional<in_other_floats> other;
            if (which != nullptr) other.emplace(*which); // the other threads are there, and keep their own
            run r;
            r.losses.push_back(t.step(images.take(0, 37)).loss);
            for (auto const& e : t.fit({images, images.take(0, 35)}, {.epochs = 1}))
                r.losses.insert(r.losses.end(), {e.loss, e.test.loss, e.test.accuracy});
            if (which != nullptr) CHECK(other->holds());
            other.reset();
            for (int d = 0; d < devices; ++d) r.weights = weights(t, d);
            for (int d = 0; d < devices; ++d) CHECK(same_bits(r.weights, weights(t, d)));
            return r;
        };
        auto const want = trained(1, nullptr);
        CHECK(std::ranges::count_if(want.weights, [](float w) { return std::fpclassify(w) == FP_SUBNORMAL; }) > 10);
        for (auto const which : all_other_floats())
            for (int const devices : {1, 2}) {
                CAPTURE(static_cast<int>(which));
                CAPTURE(devices);
                auto const got = trained(devices, &which);
                CHECK(same_bits(got.weights, want.weights));
                CHECK(same_bits(got.losses, want.losses));
            }
    }

    TEST_CASE("static types and options mean the same program") {
        using fixed = trainer<small, cross_entropy, sgd_momentum, reduce_by<ring>, on<mesh<host, dp<3>>>>;
        auto const images = made_up(100);
        fixed a({.batch = 50, .seed = 4});
        small_trainer b({.batch = 50, .seed = 4, .devices = 3, .strategy = ring{}});
        for (auto const first : {0u, 50u})
            CHECK(a.step(images.take(first, 50)).loss == b.step(images.take(first, 50)).loss);
        CHECK(same_bits(weights(a), weights(b)));
    }

    TEST_CASE("64 devices on whatever cores there are finish") {
        auto const images = made_up(256);
        for (auto const& s : strategies) {
            CAPTURE(s.name);
            small_trainer t({.batch = 256, .seed = 1, .devices = 64, .strategy = s});
            for (int k = 0; k < 3; ++k) CHECK(t.step(images).loss > 0);
        }
    }
}

} // namespace trainer_layouts_test
