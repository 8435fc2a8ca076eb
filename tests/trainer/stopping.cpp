// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fits that end early, keep the best weights, test now and then; observers of epochs.

#include <doctest/doctest.h>
#include <support/messages.hpp>
#include <support/networks.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace trainer_stopping_test {
using namespace trireme;
using namespace test_networks;
using test_support::refusal;
using test_support::says;

namespace {

using normed = network<input<1, 28, 28>, avg_pool2d<4>, conv3<3>, shard_norm, relu, flatten, linear<10>>;
using t = any_layout<normed, adam>;

settings<t> setting(int devices) {
    return {{.learning_rate = 0.02f, .batch = 32, .seed = 5, .logical_shards = 4}, {.devices = devices}};
}

/// A third of the test's labels is wrong: the surer the network is, the more it loses there.
dataset overfitting() {
    auto const test = made_up(40, 11);
    std::vector<std::uint8_t> const pixels(test.pixels().begin(), test.pixels().end());
    std::vector<std::uint8_t> labels;
    for (std::size_t i = 0; i < test.size(); ++i)
        labels.push_back(static_cast<std::uint8_t>((test.label(i) + (i % 3 == 0 ? 1 : 0)) % 10));
    return {made_up(96), {pixels, labels, 28, 28, 10}};
}

struct seen_epoch {
    epoch_report report;
    std::vector<float> parameters, buffers;
};

/// Every epoch of a fit without patience, with the weights after it.
std::vector<seen_epoch> all_epochs(int epochs) {
    auto const s = setting(1);
    t trainer(s.training, s.run);
    std::vector<seen_epoch> seen;
    for (auto const& e : trainer.fit(overfitting(), {.epochs = epochs}))
        seen.push_back({e, trainer.gather_parameters(), trainer.gather_buffers()});
    return seen;
}

double cost_of(epoch_report const& e, test_figure by) {
    return by == test_figure::loss ? e.test.loss : 1 - e.test.accuracy;
}

/// The place of the best epoch among the first `n`, the first of equal ones.
std::size_t best_of_first(std::vector<seen_epoch> const& seen, std::size_t n, test_figure by) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < n; ++i)
        if (cost_of(seen[i].report, by) < cost_of(seen[best].report, by)) best = i;
    return best;
}

/// The number of epochs after which training ends, found by looking back from each.
std::size_t ends_after(std::vector<seen_epoch> const& seen, std::size_t patience, double least, test_figure by) {
    double reached = cost_of(seen[0].report, by);
    std::size_t gained = 0;
    for (std::size_t i = 1; i < seen.size(); ++i) {
        if (cost_of(seen[i].report, by) < reached - least) {
            reached = cost_of(seen[i].report, by);
            gained = i;
        }
        if (i - gained == patience) return i + 1;
    }
    return seen.size();
}

evaluation figures(double loss, double accuracy = 0) { return {loss, accuracy, 1}; }

} // namespace

TEST_SUITE("trainer/stopping") {
    TEST_CASE("a fit ends in the epoch that patience tells, with the best weights, on one device and on two") {
        auto const seen = all_epochs(14);
        for (int const devices : {1, 2})
            for (auto const by : {test_figure::loss, test_figure::accuracy})
                for (int const patience : {1, 3})
                    for (double const least : {0.0, 0.1}) {
                        CAPTURE(devices);
                        CAPTURE(by == test_figure::loss);
                        CAPTURE(patience);
                        CAPTURE(least);
                        auto const end = ends_after(seen, static_cast<std::size_t>(patience), least, by);
                        auto const best = best_of_first(seen, end, by);
                        auto const s = setting(devices);
                        t trainer(s.training, s.run);
                        auto epochs = trainer.fit(overfitting(), {.epochs = 14,
                                                                  .patience = patience,
                                                                  .least_gain = least,
                                                                  .keep_best = true,
                                                                  .best_by = by});
                        std::size_t n = 0;
                        for (auto const& e : epochs) {
                            REQUIRE(n < end);
                            CHECK(e.best == (best_of_first(seen, n + 1, by) == n));
                            CHECK(e.test.loss == seen[n].report.test.loss);
                            CHECK(same_bits(trainer.gather_parameters(), seen[n].parameters));
                            ++n;
                        }
                        CHECK(n == end);
                        CHECK(epochs.over());
                        CHECK(epochs.best().epoch == static_cast<int>(best) + 1);
                        CHECK(same_bits(trainer.gather_parameters(), seen[best].parameters));
                        CHECK(same_bits(trainer.gather_buffers(), seen[best].buffers));
                        CHECK(trainer.evaluate(overfitting().test).loss == seen[best].report.test.loss);
                    }
        CHECK(ends_after(seen, 3, 0, test_figure::loss) < 14); // the data are as this test needs them
        CHECK(ends_after(seen, 3, 0, test_figure::loss) != ends_after(seen, 1, 0.1, test_figure::loss));
        CHECK(best_of_first(seen, 14, test_figure::loss) != best_of_first(seen, 14, test_figure::accuracy));
    }

    TEST_CASE("without keep_best the weights are those of the last epoch") {
        auto const seen = all_epochs(8);
        auto const end = ends_after(seen, 1, 0, test_figure::loss);
        REQUIRE(end < 8);
        auto const s = setting(1);
        t trainer(s.training, s.run);
        auto const last = trainer.train(overfitting(), {.epochs = 8, .patience = 1});
        CHECK(last.epoch == static_cast<int>(end));
        CHECK(same_bits(trainer.gather_parameters(), seen[end - 1].parameters));
    }

    TEST_CASE("train reports the epoch whose weights it leaves") {
        auto const seen = all_epochs(10);
        auto const best = best_of_first(seen, 10, test_figure::loss);
        REQUIRE(best < 9);
        auto const s = setting(1);
        t trainer(s.training, s.run);
        auto const report = trainer.train(overfitting(), {.epochs = 10, .keep_best = true});
        CHECK(report.epoch == static_cast<int>(best) + 1);
        CHECK(report.test.loss == seen[best].report.test.loss);
        CHECK(same_bits(trainer.gather_parameters(), seen[best].parameters));
        CHECK(trainer.train(overfitting(), {.epochs = 0, .keep_best = true}).epoch == 0);
    }

    TEST_CASE("a loop that is left leaves the last weights, and the best ones are put back on request") {
        auto const seen = all_epochs(10);
        auto const best = best_of_first(seen, 10, test_figure::loss);
        REQUIRE(best < 9);
        auto const s = setting(2);
        t trainer(s.training, s.run);
        auto epochs = trainer.fit(overfitting(), {.epochs = 12, .keep_best = true});
        epochs.restore_best(); // nothing is kept yet
        for (auto const& e : epochs)
            if (e.epoch == 10) break;
        CHECK(!epochs.over());
        CHECK(same_bits(trainer.gather_parameters(), seen[9].parameters));
        epochs.restore_best();
        CHECK(same_bits(trainer.gather_parameters(), seen[best].parameters));
        CHECK(same_bits(trainer.gather_buffers(), seen[best].buffers));
        auto keeps_none = trainer.fit(overfitting(), {.epochs = 1});
        CHECK(says(refusal([&] { keeps_none.restore_best(); }), {"restore_best", "keep_best = true"}));
    }

    TEST_CASE("a gain is larger than the least one; figures that are no numbers never gain") {
        constexpr auto nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
        detail::test_record by_loss;
        fit_options const o{.patience = 2, .least_gain = 0.25};
        CHECK(!by_loss.take(figures(nan), o));
        CHECK(by_loss.without_gain() == 1);
        CHECK(!by_loss.take(figures(inf), o));
        CHECK(by_loss.without_gain() == 2);
        CHECK(by_loss.take(figures(2), o));
        CHECK(by_loss.without_gain() == 0);
        CHECK(by_loss.take(figures(1.75), o)); // the best, but no larger gain than the least
        CHECK(by_loss.without_gain() == 1);
        CHECK(by_loss.take(figures(1.5), o)); // a gain since the last that counted
        CHECK(by_loss.without_gain() == 0);
        CHECK(!by_loss.take(figures(1.5), o));
        CHECK(!by_loss.take(figures(nan), o));
        CHECK(by_loss.without_gain() == 2);

        detail::test_record by_accuracy;
        fit_options const a{.best_by = test_figure::accuracy};
        CHECK(by_accuracy.take(figures(1, 0.5), a));
        CHECK(!by_accuracy.take(figures(0.1, 0.5), a));
        CHECK(by_accuracy.without_gain() == 1);
        CHECK(by_accuracy.take(figures(9, 0.75), a));
        CHECK(by_accuracy.without_gain() == 0);
    }

    TEST_CASE("tests are made every so many epochs, and after the last; patience counts tests") {
        auto const s = setting(1);
        t trainer(s.training, s.run);
        std::string tested;
        for (auto const& e : trainer.fit(overfitting(), {.epochs = 7, .test_every = 3})) {
            tested += e.tested ? 'T' : '-';
            CHECK(e.best <= e.tested);
            CHECK(e.test.samples == (e.tested ? 40u : 0u));
        }
        CHECK(tested == "--T--TT");
        trainer.load_parameters(std::vector<float>(normed::parameters)); // a fit that gains nothing
        trainer.set_learning_rate(0);
        CHECK(trainer.train(overfitting(), {.epochs = 20, .test_every = 3, .patience = 2}).epoch == 9);
    }

    TEST_CASE("options that break a rule are refused before the first epoch, with the remedy") {
        auto const s = setting(1);
        t trainer(s.training, s.run);
        auto const refused = [&](fit_options const& o, bool tests = true) {
            auto data = overfitting();
            if (!tests) data.test = {};
            return refusal([&] { (void)trainer.fit(data, o); });
        };
        CHECK(says(refused({.epochs = -2}), {"epochs = -2", "negative"}));
        CHECK(says(refused({.test_every = 0}), {"test_every = 0", "at least one epoch", "leave out data.test"}));
        CHECK(says(refused({.patience = -1}), {"patience = -1", "not be negative", "0 trains all"}));
        CHECK(says(refused({.patience = 1, .least_gain = -0.5}), {"least_gain = -0.5", "positive"}));
        CHECK(says(refused({.patience = 1, .least_gain = NAN}), {"least_gain = nan", "finite"}));
        CHECK(says(refused({.patience = 1, .least_gain = INFINITY}), {"least_gain = inf", "finite"}));
        CHECK(says(refused({.least_gain = 0.1}), {"least_gain = 0.1", "set patience"}));
        CHECK(says(refused({.patience = 2}, false), {"patience = 2", "data.test is empty", "leave out patience"}));
        CHECK(says(refused({.keep_best = true}, false), {"keep_best", "data.test is empty"}));
        CHECK(refused({.test_every = 2}, false).empty());
        CHECK(refused({.patience = 1, .least_gain = 0.1, .keep_best = true}).empty());
    }
}

TEST_SUITE("trainer/observers") {
    TEST_CASE("an observer of epochs is told after the test and before the loop's body; one of both, of both") {
        auto const s = setting(2);
        t trainer(s.training, s.run);
        std::string told;
        struct both {
            std::string* told;
            void operator()(progress_report const& p) const { *told += p.batch == p.batches ? "| " : "."; }
            void operator()(epoch_report const& e) const { *told += e.tested ? "tested " : "untested "; }
        };
        for (auto const& e : trainer.fit(overfitting(), {.epochs = 2}, both{&told}))
            told += "body" + std::to_string(e.epoch) + " ";
        CHECK(told == "..| tested body1 ..| tested body2 ");
        std::vector<int> epochs;
        trainer.train({made_up(40), {}}, {.epochs = 3}, [&](epoch_report const& e) {
            epochs.push_back(e.epoch);
            CHECK(!e.tested);
            CHECK(trainer.gather_parameters().size() == normed::parameters); // the trainer is free
        });
        CHECK(epochs == std::vector{1, 2, 3});
    }

    TEST_CASE("observers are told in their order, each of what it takes") {
        std::string told;
        auto const steps = [&](progress_report const& p) { told += "s" + std::to_string(p.batch); };
        auto const epochs = [&](epoch_report const& e) { told += "e" + std::to_string(e.epoch); };
        struct counter {
            int steps = 0, epochs = 0;
            void operator()(progress_report const&) { ++steps; }
            void operator()(epoch_report const&) { ++epochs; }
        } kept, copied;
        auto all = observers(steps, std::ref(kept), observers(epochs, copied), steps);
        progress_report p;
        p.batch = 2;
        epoch_report e;
        e.epoch = 7;
        all(p);
        all(e);
        all(p);
        CHECK(told == "s2s2e7s2s2");
        CHECK(kept.steps == 2);
        CHECK(kept.epochs == 1);
        CHECK(copied.steps == 0);
        static_assert(!epoch_observer<decltype(observers(steps))> && step_observer<decltype(observers(steps))>);
        static_assert(epoch_observer<decltype(observers(epochs))> && !step_observer<decltype(observers(epochs))>);
        static_assert(!observer<int> && !observer<decltype([](std::string const&) {})>);
    }

    TEST_CASE("what an observer of epochs throws reaches the caller as it is, and the trainer goes on") {
        auto const s = setting(2);
        t trainer(s.training, s.run);
        struct enough {};
        auto const stop = [](epoch_report const& e) {
            if (e.epoch == 2) throw enough{};
        };
        CHECK_THROWS_AS(trainer.train(overfitting(), {.epochs = 5}, stop), enough);
        CHECK(trainer.train(overfitting(), {.epochs = 1}).epoch == 1);
        CHECK_THROWS_AS(trainer.train(overfitting(), {.epochs = 5},
                                      [](progress_report const&) { throw std::runtime_error("seen enough"); }),
                        device_error);
    }
}

} // namespace trainer_stopping_test
