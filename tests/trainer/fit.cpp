// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>
#include <support/networks.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace trainer_fit_test {
using namespace trireme;
using namespace test_networks;

namespace {
using t = any_layout<softmax_regression>;

/// Softmax regression in double precision and naive loops: nothing of it is the library's.
struct naive_regression {
    std::vector<double> w, b = std::vector<double>(10); ///< w: [class][pixel]

    /// One step of gradient descent on `samples`, all of one weight; returns the sum of their losses before it.
    double step(labelled_images const& images, std::span<std::uint32_t const> samples, double rate) {
        std::vector<double> dw(w.size()), db(b.size());
        double loss = 0;
        for (auto const i : samples) {
            auto const image = images.image(i);
            double logits[10], sum = 0;
            for (std::size_t c = 0; c < 10; ++c) {
                logits[c] = b[c];
                for (std::size_t p = 0; p < 784; ++p) logits[c] += w[c * 784 + p] * image[p] / 255;
                sum += std::exp(logits[c]);
            }
            for (std::size_t c = 0; c < 10; ++c) {
                bool const right = images.label(i) == c;
                double const d = std::exp(logits[c]) / sum - (right ? 1 : 0);
                if (right) loss -= std::log(std::exp(logits[c]) / sum);
                db[c] += d;
                for (std::size_t p = 0; p < 784; ++p) dw[c * 784 + p] += d * image[p] / 255;
            }
        }
        auto const each = rate / static_cast<double>(samples.size());
        for (std::size_t k = 0; k < w.size(); ++k) w[k] -= each * dw[k];
        for (std::size_t k = 0; k < b.size(); ++k) b[k] -= each * db[k];
        return loss;
    }
};
} // namespace

TEST_SUITE("trainer/fit") {
    TEST_CASE("epochs are trained one by one, each with a test and a report") {
        auto const images = made_up(300);
        t trainer({.learning_rate = 0.1f, .batch = 64, .seed = 1}, {.devices = 2});
        int seen = 0;
        double first = 0, last = 0;
        for (auto const& e : trainer.fit({images, images}, {.epochs = 4})) {
            CHECK(e.epoch == ++seen);
            CHECK(e.tested);
            CHECK(e.test.samples == 300);
            CHECK(e.devices == 2);
            CHECK(e.samples_per_second > 0);
            CHECK(e.sync_share >= 0);
            CHECK(e.sync_share <= 1);
            CHECK(e.data_share >= 0);
            (seen == 1 ? first : last) = e.loss;
        }
        CHECK(seen == 4);
        CHECK(last < first);
    }

    TEST_CASE("the observer is told of every step, with sums that add up") {
        auto const images = made_up(150);
        t trainer({.batch = 64}, {.devices = 3});
        std::vector<progress_report> told;
        for ([[maybe_unused]] auto const& e :
             trainer.fit({images, {}}, {.epochs = 2}, [&](progress_report const& p) { told.push_back(p); })) {}
        REQUIRE(told.size() == 6);
        CHECK(told[0].batch == 1);
        CHECK(told[2].batch == 3);
        CHECK(told[2].samples == 150);
        CHECK(told[1].samples == 128);
        CHECK(told[3].epoch == 2);
        CHECK(told[5].epochs == 2);
        CHECK(told[5].batches == 3);
        CHECK(told[2].seconds >= told[0].seconds);
    }

    TEST_CASE("every sample of a batch weighs alike, in a short last batch, too: losses and weights of naive loops") {
        auto const images = made_up(47);
        for (std::size_t const batch : {20u, 46u}) // the last has 7 samples, or a single one
            for (int const devices : {1, 2, 3})
                for (std::size_t const shards : {0u, 8u}) {
                    CAPTURE(batch);
                    CAPTURE(devices);
                    CAPTURE(shards);
                    t trainer({.learning_rate = 0.25f, .batch = batch, .seed = 5, .logical_shards = shards},
                              {.devices = devices, .strategy = direct{}});
                    auto const first = weights(trainer);
                    naive_regression naive{{first.begin(), first.begin() + 7840}};
                    std::vector<double> told;
                    double sum = 0;
                    for (auto const& e : trainer.fit({images, {}}, {.epochs = 1},
                                                     [&](progress_report const& p) { told.push_back(p.loss); })) {
                        epoch_order order(47, 5);
                        order.shuffle(0);
                        for (std::size_t b = 0; b < order.batches(batch); ++b) {
                            auto const samples = order.batch(b, batch);
                            auto const loss = naive.step(images, samples, 0.25);
                            CHECK(told.at(b) ==
                                  doctest::Approx(loss / static_cast<double>(samples.size())).epsilon(1e-5));
                            sum += loss;
                        }
                        CHECK(e.loss == doctest::Approx(sum / 47).epsilon(1e-5));
                    }
                    auto const got = weights(trainer);
                    double worst = 0;
                    for (std::size_t k = 0; k < got.size(); ++k)
                        worst = std::max(worst, std::abs(got[k] - (k < 7840 ? naive.w[k] : naive.b[k - 7840])));
                    CHECK(worst < 1e-5);
                }
    }

    TEST_CASE("the loop may be left early, and goes on where it was") {
        auto const images = made_up(128);
        t one({.batch = 32, .seed = 8}), other({.batch = 32, .seed = 8});
        for ([[maybe_unused]] auto const& e : one.fit({images, {}}, {.epochs = 3})) {}
        for (auto const& e : other.fit({images, {}}, {.epochs = 5}))
            if (e.epoch == 2) break;
        for ([[maybe_unused]] auto const& e : other.fit({images, {}}, {.epochs = 1})) {}
        CHECK(same_bits(weights(one), weights(other)));
    }

    TEST_CASE("train is fit without a loop: all epochs, the last report, the observer too") {
        auto const images = made_up(128), test = made_up(50, 11);
        t one({.batch = 32, .seed = 8}), other({.batch = 32, .seed = 8});
        epoch_report last;
        for (auto const& e : one.fit({images, test}, {.epochs = 3})) last = e;
        int told = 0;
        auto const report = other.train({images, test}, {.epochs = 3}, [&](progress_report const&) { ++told; });
        CHECK(same_bits(weights(one), weights(other)));
        CHECK(report.epoch == 3);
        CHECK(report.loss == last.loss);
        CHECK(report.test.accuracy == last.test.accuracy);
        CHECK(report.test.loss == other.evaluate(test).loss);
        CHECK(report.test.samples == 50);
        CHECK(told == 3 * 4);
        CHECK(other.train({images, {}}, {.epochs = 0}).epoch == 0);
        CHECK(same_bits(weights(one), weights(other)));
    }

    TEST_CASE("an epoch is the sum of its steps in the shuffled order") {
        auto const images = made_up(100);
        t whole({.batch = 32, .seed = 3}), by_hand({.batch = 32, .seed = 3});
        double sum = 0;
        epoch_order order(100, 3);
        order.shuffle(0);
        for (std::size_t b = 0; b < order.batches(32); ++b) {
            std::vector<std::uint8_t> pixels, labels;
            for (auto const i : order.batch(b, 32)) {
                auto const image = images.image(i);
                pixels.insert(pixels.end(), image.begin(), image.end());
                labels.push_back(images.label(i));
            }
            auto const n = labels.size();
            sum += by_hand.step(labelled_images(pixels, labels, 28, 28, 10)).loss * static_cast<double>(n);
        }
        for (auto const& e : whole.fit({images, {}}, {.epochs = 1})) CHECK(e.loss == doctest::Approx(sum / 100));
        CHECK(same_bits(weights(whole), weights(by_hand)));
    }

    TEST_CASE("evaluate leaves the weights alone and agrees with any number of devices") {
        auto const images = made_up(77);
        t one({.batch = 32}), four({.batch = 32}, {.devices = 4});
        auto const before = weights(one);
        auto const a = one.evaluate(images);
        auto const b = four.evaluate(images);
        CHECK(same_bits(before, weights(one)));
        CHECK(a.accuracy == b.accuracy);
        CHECK(a.loss == doctest::Approx(b.loss).epsilon(1e-6));
        CHECK(a.samples == 77);
        CHECK(one.step(images).loss == doctest::Approx(a.loss).epsilon(1e-5)); // the loss before the update
    }

    TEST_CASE("a report prints as one line") {
        epoch_report e;
        e.epoch = 3;
        e.loss = 0.51234;
        e.tested = true;
        e.test.accuracy = 0.8123;
        e.samples_per_second = 12345;
        e.devices = 2;
        std::ostringstream text;
        text << e;
        CHECK(text.str() ==
              "epoch 3  loss 0.5123  test accuracy 0.8123  12345 samples/s  2 devices  sync 0.0%  data 0.00%");
    }
}

TEST_SUITE("trainer/report") {
    TEST_CASE("the time that is left is that of the epochs to come and of what is left of this one") {
        progress_report p;
        p.epoch = 2;
        p.epochs = 4;
        p.samples = 100;
        p.samples_per_epoch = 300;
        p.seconds = 2;
        CHECK(p.samples_per_second() == 50);
        CHECK(p.seconds_left() == (200 + 2 * 300) / 50.0);
    }

    TEST_CASE("a loss that has diverged prints, however large") {
        epoch_report e;
        e.epoch = 1;
        for (double const loss : {1e250, -1e250, static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
            e.loss = loss;
            e.samples_per_second = 1e300;
            CHECK(to_string(e).size() < 1000);
        }
    }
}

TEST_SUITE("nightly/trainer/fit") {
    TEST_CASE("D2L's setting reaches 0.80 test accuracy in 10 epochs") {
        auto const data = fashion_mnist::load();
        trainer<lenet, cross_entropy, sgd, on<mesh<host, dp<2>>>> t({.learning_rate = 0.9f, .batch = 256, .seed = 1});
        epoch_report last;
        for (auto const& e : t.fit(data, {.epochs = 10})) last = e;
        CHECK(last.test.accuracy >= 0.80);
    }
}

} // namespace trainer_fit_test
