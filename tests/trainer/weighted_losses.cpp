// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Trainings with losses in which samples count differently.

#include <trireme/reference.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/allocation_hook.hpp>
#include <support/arenas.hpp>
#include <support/compare.hpp>
#include <support/layouts.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>
#include <support/regression.hpp>
#include <support/weighing.hpp>

#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace trainer_weighted_losses_test {
using namespace trireme;
using namespace test_weighing;
using test_layouts::have_one_devices_bits;
using test_networks::weights;
using test_support::refusal;
using test_support::same_bits;
using test_support::says;

namespace {

template<class Network, class Loss, class... Policies>
using any = test_networks::any_stages<host, Network, Loss, sgd, Policies...>;

using line = network<input<6>, linear<5>>;

/// The logits of `line`, by its parameters: [5][6], then [5].
std::vector<double> logits_of(std::vector<double> const& parameters, labelled_table const& table) {
    std::vector<double> all;
    for (std::size_t s = 0; s < table.size(); ++s)
        for (std::size_t c = 0; c < 5; ++c) {
            double y = parameters[30 + c];
            for (std::size_t i = 0; i < 6; ++i)
                y += parameters[6 * c + i] * static_cast<double>(table.inputs[6 * s + i]);
            all.push_back(y);
        }
    return all;
}

struct found {
    double loss, accuracy;
};
found of_table(std::vector<double> const& parameters, labelled_table const& table) {
    auto const logits = logits_of(parameters, table);
    auto const weight = table.weight();
    double loss = 0;
    std::size_t right = 0;
    for (std::size_t s = 0; s < table.size(); ++s) {
        by_hand const one(&logits[5 * s], table.labels[s]);
        loss += one.loss;
        right += one.right ? 1 : 0;
    }
    return {weight.sum > 0 ? loss / weight.sum : 0,
            weight.targets > 0 ? static_cast<double>(right) / static_cast<double>(weight.targets) : 0};
}

struct twos {
    static constexpr double of[] = {2, 2, 2, 2, 2};
};
struct none_and_twos {
    static constexpr double of[] = {0, 2, 2, 2, 2};
};

/// A loss of values whose samples weigh what their first target says.
struct weighing_values : mean_squared_error {
    static double weight(auto const* targets) noexcept { return static_cast<double>(targets[0]); }
    static void forward(auto const& io) {
        mean_squared_error::forward(io);
        weigh(io);
    }
    static void backward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        mean_squared_error::backward(io);
        weigh(io);
        for (std::size_t i = 0; i < io.dx.size(); ++i) io.dx[i] *= io.target[i % io_t::lanes];
    }

private:
    static void weigh(auto const& io) {
        for (std::size_t lane = 0; lane < io.lanes; ++lane) io.loss[lane] *= io.target[lane];
    }
};

/// A loss whose targets are an image, and behind it which of its pixels count.
template<std::size_t Side>
struct masked {
    static constexpr std::size_t pixels = Side * Side;
    static constexpr loss_description describe(shape output) noexcept {
        return {.flops = 3 * output.size(), .targets = make_shape(2, Side, Side)};
    }
    static double weight(auto const* targets) noexcept {
        double all = 0;
        for (std::size_t i = 0; i < pixels; ++i) all += static_cast<double>(targets[pixels + i]);
        return all;
    }
    static void forward(auto const& io) {
        for_pixels(io, [](std::size_t, std::size_t, auto) {});
    }
    static void backward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        for_pixels(io, [&](std::size_t i, std::size_t lane, auto slope) {
            io.dx.data[i * io_t::lanes + lane] = io.weight[lane] * slope;
        });
    }

private:
    static void for_pixels(auto const& io, auto const& f) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        for (std::size_t lane = 0; lane < io_t::lanes; ++lane) {
            io.loss[lane] = 0;
            for (std::size_t i = 0; i < pixels; ++i) {
                auto const counts = io.target.data[(pixels + i) * io_t::lanes + lane],
                           apart = io.x.data[i * io_t::lanes + lane] - io.target.data[i * io_t::lanes + lane];
                io.loss[lane] += counts * apart * apart;
                f(i, lane, 2 * counts * apart);
            }
        }
    }
};

} // namespace

TEST_SUITE("trainer/weighted_losses") {
    TEST_CASE_TEMPLATE("losses, accuracies and a step are those that are done by hand", Kernels, portable, reference) {
        using t = any<line, weighing, kernels<Kernels>, precision<f64>>;
        labelled_table const table(21), tested(40, 2);
        for (int const devices : {1, 2, 3}) {
            CAPTURE(devices);
            t one({.learning_rate = 0.25f, .batch = 21}, {.devices = devices});
            auto const before = weights(one);
            auto const wanted = of_table(before, table), of_test = of_table(before, tested);
            auto const test = one.evaluate(tested);
            CHECK(test.loss == doctest::Approx(of_test.loss).epsilon(1e-12));
            CHECK(test.accuracy == doctest::Approx(of_test.accuracy).epsilon(1e-15));
            CHECK(test.samples == 40);
            auto const step = one.step(table);
            CHECK(step.loss == doctest::Approx(wanted.loss).epsilon(1e-12));
            CHECK(step.samples == 21);
            // the update is the derivative of the loss, times the learning rate
            auto const after = weights(one);
            for (std::size_t i = 0; i < before.size(); ++i) {
                auto above = before, below = before;
                above[i] += 1e-5;
                below[i] -= 1e-5;
                double const slope = (of_table(above, table).loss - of_table(below, table).loss) / 2e-5;
                CHECK((before[i] - after[i]) / 0.25 == doctest::Approx(slope).epsilon(1e-7).scale(1.0));
            }
        }
    }

    TEST_CASE("a batch of which nothing counts has the loss 0 and changes nothing; momentum and decay go on") {
        auto const none = labelled_table(20, 6).leave_out_all();
        for (int const devices : {1, 2}) {
            any<plain_net, weighing> t({.learning_rate = 0.5f, .batch = 20}, {.devices = devices});
            auto const before = weights(t);
            CHECK(t.step(none).loss == 0);
            CHECK(same_bits(weights(t), before));
            auto const e = t.evaluate(none);
            CHECK((e.loss == 0 && e.accuracy == 0 && e.samples == 20));
            trainer<plain_net, weighing, sgd_momentum> with_momentum{{.learning_rate = 0.5f, .batch = 20}};
            with_momentum.step(labelled_table(20));
            auto const moving = with_momentum.gather_parameters();
            with_momentum.step(none);
            CHECK(!same_bits(with_momentum.gather_parameters(), moving));
        }
    }

    TEST_CASE("what does not count may be any numbers") {
        labelled_table table(24), broken(24);
        for (std::size_t s = 0; s < table.size(); ++s)
            if (table.labels[s] == left_out)
                for (std::size_t i = 0; i < 6; ++i) broken.inputs[6 * s + i] = 1e6f;
        any<plain_net, weighing> t({.batch = 24}), other({.batch = 24});
        CHECK(t.step(table).loss == other.step(broken).loss);
        CHECK(same_bits(weights(t), weights(other)));
    }

    TEST_CASE("accuracy is that of labels with a weight, and not above 1") {
        using half = cross_entropy_with<class_weights<none_and_twos>>;
        std::vector<float> const inputs(6 * 8, 0.5f);
        std::vector<int> const labels{0, 0, 0, 0, 0, 0, 0, 1};
        samples_in_memory const samples(inputs, make_shape(6), labels, 5);
        any<line, half> t({.batch = 8}, {.devices = 2});
        std::vector<float> parameters(35);
        parameters[30] = 10; // class 0, always
        t.load_parameters(parameters);
        CHECK(t.evaluate(samples).accuracy == 0);
        parameters[31] = 20; // class 1, always
        t.load_parameters(parameters);
        CHECK(t.evaluate(samples).accuracy == 1);
    }

    TEST_CASE("an epoch's loss is the mean over its weights") {
        labelled_table const many(50, 5);
        for (int const devices : {1, 2}) {
            any<line, weighing> t({.learning_rate = 0.0f, .batch = 16}, {.devices = devices});
            struct {
                samples_in_memory train, test;
            } const data{many.samples(), many.samples()};
            auto const last = t.train(data, {.epochs = 1});
            CHECK(last.loss == doctest::Approx(last.test.loss).epsilon(1e-5)); // nothing is learnt
        }
    }

    TEST_CASE("any number of devices, and any stages, have the bits of one device") {
        watchdog const guard("weighted losses");
        using t = any<net, weighing>;
        auto const wanted =
            have_one_devices_bits<t>({.learning_rate = 0.3f, .batch = 48, .seed = 5, .logical_shards = 6},
                                     {{1, 1}, {2, 1}, {3, 1}, {1, 2}, {2, 2}, {3, 2}, {1, 3}, {2, 3}, {3, 3}},
                                     [](t& one) { return train(one); });
        CHECK(wanted[2] == 0);
        using fixed = trainer<net, weighing, sgd, on<mesh<host, dp<2>, pp<2>>>, reproducible<fixed_tree, 6>>;
        fixed two_by_two({.learning_rate = 0.3f, .batch = 48, .seed = 5});
        CHECK(same_bits(train(two_by_two), wanted));
    }

    TEST_CASE("so have weights that are held once, and double precision") {
        watchdog const guard("weighted losses");
        auto const same = []<class Trainer>(std::type_identity<Trainer>) {
            have_one_devices_bits<Trainer>({.learning_rate = 0.3f, .batch = 48, .seed = 5, .logical_shards = 6},
                                           {{2, 1}, {3, 1}, {2, 2}, {3, 2}}, [](Trainer& t) { return train(t); });
        };
        same(std::type_identity<any<net, weighing, hold_weights<once>>>{});
        same(std::type_identity<any<net, weighing, precision<f64>>>{});
    }

    TEST_CASE("equal weights of all classes are none, and what does not count is as if it were not there") {
        labelled_table const table(40);
        auto const after = []<class Loss>(Loss, labelled_table const& samples) {
            any<plain_net, Loss, precision<f64>> t({.learning_rate = 0.3f, .batch = 40});
            for (int k = 0; k < 3; ++k) t.step(samples);
            return weights(t);
        };
        auto const wanted = after(cross_entropy_with<ignoring<left_out>>{}, table);
        auto const found = after(cross_entropy_with<class_weights<twos>, ignoring<left_out>>{}, table);
        CHECK(test_support::apart(found, wanted) < 1e-12);

        labelled_table counted(0); // those that count, alone
        for (std::size_t s = 0; s < table.size(); ++s)
            if (table.labels[s] != left_out) {
                counted.inputs.insert(counted.inputs.end(), &table.inputs[6 * s], &table.inputs[6 * s] + 6);
                counted.labels.push_back(table.labels[s]);
            }
        CHECK(test_support::apart(after(cross_entropy_with<ignoring<left_out>>{}, counted), wanted) < 1e-12);
    }

    TEST_CASE("targets that weigh need no room on the stack") {
        constexpr std::size_t side = 1024;
        using image = network<input<1, side, side>, conv2d<1, kernel<1>>>;
        std::vector<float> const inputs(side * side, 0.5f), targets(2 * side * side, 1.0f);
        samples_in_memory const one(inputs, make_shape(1, side, side), targets, make_shape(2, side, side));
        trainer<image, masked<side>, sgd> t{{.learning_rate = 0.0f, .batch = 1}};
        auto const loss = t.step(one).loss;
        CHECK(std::isfinite(loss));
        CHECK(t.evaluate(one).loss == loss);
    }

    TEST_CASE("losses of values have weights, too") {
        using test_regression::made_up_table;
        using t = any<network<input<6>, linear<3>>, weighing_values, precision<f64>>;
        made_up_table<float> table(20);
        for (std::size_t s = 0; s < 20; s += 3) table.targets[3 * s] = 0; // these count nothing
        for (int const devices : {1, 2}) {
            t one({.learning_rate = 0.25f, .batch = 20}, {.devices = devices});
            auto const p = weights(one);
            double loss = 0, weight = 0;
            for (std::size_t s = 0; s < 20; ++s) {
                double of_sample = 0;
                for (std::size_t o = 0; o < 3; ++o) {
                    double off = p[18 + o] - static_cast<double>(table.targets[3 * s + o]);
                    for (std::size_t i = 0; i < 6; ++i)
                        off += p[6 * o + i] * static_cast<double>(table.inputs[6 * s + i]) * 0.01;
                    of_sample += off * off / 3;
                }
                double const w = static_cast<double>(table.targets[3 * s]);
                loss += w * of_sample;
                weight += w;
            }
            CHECK(one.evaluate(table).loss == doctest::Approx(loss / weight).epsilon(1e-12));
            CHECK(one.step(table).loss == doctest::Approx(loss / weight).epsilon(1e-12));
            auto const after = one.evaluate(table).loss;
            CHECK(after < loss / weight);
        }
        CHECK(check_loss_gradients<weighing_values, input<3>>().ok());
    }

    TEST_CASE("networks learn by squared errors, and by a cross-entropy of two classes") {
        using test_regression::made_up_table;
        made_up_table<float> const table(96);
        any<network<input<6>, linear<16>, hyperbolic_tangent, linear<3>>, mean_squared_error> curve(
            {.learning_rate = 0.5f, .batch = 96}, {.devices = 2});
        double const before = curve.step(table).loss;
        for (int k = 0; k < 200; ++k) curve.step(table);
        CHECK(curve.evaluate(table).loss < before / 20);

        made_up_table<float> yes_or_no(96);
        for (auto& target : yes_or_no.targets) target = target > 0.3f ? 1 : 0;
        any<network<input<6>, linear<16>, hyperbolic_tangent, linear<3>>, binary_cross_entropy> answers(
            {.learning_rate = 1.0f, .batch = 96}, {.devices = 2});
        double const guessed = answers.step(yes_or_no).loss;
        for (int k = 0; k < 300; ++k) answers.step(yes_or_no);
        auto const learnt = answers.evaluate(yes_or_no);
        CHECK(learnt.loss < guessed / 3);
        CHECK(learnt.accuracy > 0.9);
    }

    TEST_CASE("memory is that of the plan, and a step allocates nothing") {
        using t = any<net, weighing>;
        labelled_table const table(48);
        for (int const stages : {1, 2})
            for (int const devices : {1, 2}) {
                CAPTURE(stages);
                CAPTURE(devices);
                t::options const o{.batch = 48, .logical_shards = 6};
                t::run_options const r{.devices = devices, .stages = stages};
                auto const plan = t::plan(48, t::layout_of(o, r));
                allocation_hook::aligned_to_line = 0;
                t trainer(o, r);
                CHECK(allocation_hook::aligned_to_line == test_support::arenas_of(plan));
                trainer.step(table);
                trainer.evaluate(table);
                sample_set const samples = table;
                auto const before = allocation_hook::allocations.load();
                for (int k = 0; k < 3; ++k) trainer.step(samples);
                trainer.evaluate(samples);
                CHECK(allocation_hook::allocations == before);
            }
    }

    TEST_CASE("labels that are neither classes nor ignored are refused, and the trainer works on") {
        labelled_table const table(8);
        CHECK(says(refusal([&] { (void)samples_in_memory(table.inputs, make_shape(6), table.labels, 5); }),
                   {"is -100", "labels lie in [0, 5)", "pass more classes"}));
        CHECK(says(refusal([&] { (void)samples_in_memory(table.inputs, make_shape(6), table.labels, 5, -1); }),
                   {"is -100", "labels lie in [0, 5), or are -1"}));
        std::vector<int> lowest(8, no_label);
        CHECK(says(refusal([&] { (void)samples_in_memory(table.inputs, make_shape(6), lowest, 5); }),
                   {"labels lie in [0, 5);"}));
        std::vector<std::uint8_t> bytes(8, 255);
        samples_in_memory const of_bytes(table.inputs, make_shape(6), bytes, 5, 255);

        any<line, cross_entropy> plain({.batch = 8});
        any<line, weighing> t({.batch = 8});
        any<line, cross_entropy_with<ignoring<255>>> of_255({.batch = 8});
        CHECK(says(refusal([&] { plain.step(table); }),
                   {"label -100", "cross_entropy ignores none", "cross_entropy_with<ignoring<-100>>"}));
        CHECK(says(refusal([&] { t.step(of_bytes); }), {"label 255", "ignores -100", "ignoring<255>"}));
        CHECK(says(refusal([&] { plain.evaluate(of_bytes); }), {"label 255", "ignores none"}));
        test_regression::made_up_shares const values(8);
        CHECK(says(refusal([&] { t.step(values); }), {"are values", "wants classes"}));
        any<network<input<6>, linear<3>>, binary_cross_entropy> of_values({.batch = 8});
        CHECK(says(refusal([&] { of_values.step(table); }), {"are classes", "binary_cross_entropy wants values"}));
        CHECK(of_values.step(values).samples == 8);
        CHECK(of_255.step(of_bytes).loss == 0);
        CHECK(t.step(table).loss > 0);
        std::vector<int> const all_classes{0, 1, 2, 3, 4, 0, 1, 2};
        CHECK(t.step(samples_in_memory(table.inputs, make_shape(6), all_classes, 5)).loss > 0); // none need be ignored
    }
}

} // namespace trainer_weighted_losses_test
