// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Trainings on samples that are no images, with losses that are no cross_entropy.

#include <trireme/readers.hpp>
#include <trireme/reference.hpp>

#include <doctest/doctest.h>
#include <support/compare.hpp>
#include <support/files.hpp>
#include <support/layouts.hpp>
#include <support/left_out.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>
#include <support/own_memory.hpp>
#include <support/regression.hpp>
#include <support/sanitizers.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace trainer_samples_test {
using namespace trireme;
using namespace test_regression;
using test_networks::weights;
using test_support::left_out;
using test_support::memory_of_its_own;
using test_support::refusal;
using test_support::same_bits;
using test_support::says;

namespace {

template<class Network, class Loss, class... Policies>
using any = test_networks::any_stages<host, Network, Loss, sgd, Policies...>;

} // namespace

TEST_SUITE("trainer/samples") {
    TEST_CASE_TEMPLATE("a step on several targets is the one that is done by hand", Kernels, portable, reference) {
        using plane = any<network<input<6>, linear<3>>, squared_error, kernels<Kernels>, precision<f64>>;
        made_up_table<std::int16_t> const table(21);
        for (int const devices : {1, 2}) {
            CAPTURE(devices);
            plane t({.learning_rate = 0.25f, .batch = 21}, {.devices = devices});
            auto expected = weights(t); // [3][6], then [3]
            auto const before = expected;
            double loss = 0;
            for (std::size_t s = 0; s < table.size(); ++s)
                for (std::size_t o = 0; o < 3; ++o) {
                    double y = before[18 + o];
                    auto const x = [&](std::size_t i) { return table.inputs[6 * s + i] * 0.01; };
                    for (std::size_t i = 0; i < 6; ++i) y += before[6 * o + i] * x(i);
                    double const off = y - static_cast<double>(table.targets[3 * s + o]), by = 0.25 * 2 * off / 21;
                    loss += off * off / 21;
                    for (std::size_t i = 0; i < 6; ++i) expected[6 * o + i] -= by * x(i);
                    expected[18 + o] -= by;
                }
            CHECK(t.evaluate(table).loss == doctest::Approx(loss).epsilon(1e-12));
            CHECK(std::isnan(t.evaluate(table).accuracy)); // values are not right or wrong
            CHECK(t.step(table).loss == doctest::Approx(loss).epsilon(1e-12));
            CHECK(test_support::apart(weights(t), expected) < 1e-12);
        }
    }

    TEST_CASE("numbers of every kind train alike, and so do rows that do not lie side by side") {
        using t = any<curve, squared_error>;
        auto const after_a_step = [](sample_set const& samples) {
            t one({.batch = 40});
            one.step(samples);
            return weights(one);
        };
        auto const of = [&]<class N>(N) { return after_a_step(made_up_table<N>(40)); };
        auto const wanted = of(float{});
        CHECK(same_bits(of(std::uint8_t{}), wanted));
        CHECK(same_bits(of(std::int8_t{}), wanted));
        CHECK(same_bits(of(std::uint16_t{}), wanted));
        CHECK(same_bits(of(std::uint32_t{}), wanted));
        CHECK(same_bits(of(std::uint64_t{}), wanted));
        CHECK(same_bits(of(std::int64_t{}), wanted));
        CHECK(same_bits(of(double{}), wanted));

        /// A table whose rows have the targets behind the inputs.
        struct one_table {
            made_up_table<float> const parts{40};
            std::vector<float> all;

            one_table() {
                for (std::size_t i = 0; i < parts.size(); ++i) {
                    all.insert(all.end(), &parts.inputs[6 * i], &parts.inputs[6 * i] + 6);
                    all.insert(all.end(), &parts.targets[3 * i], &parts.targets[3 * i] + 3);
                }
            }
            std::size_t size() const { return parts.size(); }
            sample_rows inputs() const {
                auto rows = rows_of(all.data(), make_shape(6));
                rows.stride = 9 * sizeof(float);
                rows.scale = 0.01;
                return rows;
            }
            sample_rows targets() const {
                auto rows = rows_of(all.data() + 6, make_shape(3));
                rows.stride = 9 * sizeof(float);
                return rows;
            }
        };
        static_assert(sample_source<one_table> && sample_source<labelled_images> && sample_source<sample_set>);
        CHECK(same_bits(after_a_step(one_table()), wanted));
    }

    TEST_CASE("stages have one device's bits with values as with classes, and learn them") {
        using t = any<curve, squared_error>;
        auto const told = test_layouts::have_one_devices_bits<t>(
            {.learning_rate = 0.05f, .batch = 96, .seed = 5, .logical_shards = 6},
            {{1, 1}, {3, 1}, {1, 2}, {3, 2}, {1, 3}, {3, 3}}, [](t& one) { return train(one); });
        CHECK(told[2] < told[0]);
    }

    TEST_CASE("labels of any kind are classes") {
        using flowers = any<network<input<6>, linear<10>, relu, linear<4>>, cross_entropy>;
        made_up_table<float> const table(40);
        auto const losses = [&](auto label) {
            std::vector<decltype(label)> labels;
            for (std::size_t i = 0; i < table.size(); ++i) labels.push_back(static_cast<decltype(label)>(i % 4));
            flowers t({.learning_rate = 0.5f, .batch = 16}, {.devices = 2});
            samples_in_memory const samples(table.inputs, make_shape(6), labels, 4);
            struct {
                samples_in_memory train, test;
            } const data{samples, samples};
            auto const last = t.train(data, {.epochs = 3});
            CHECK(last.test.accuracy > 0);
            return std::vector<double>{last.loss, last.test.loss, last.test.accuracy};
        };
        CHECK(losses(std::uint8_t{}) == losses(std::int64_t{}));
        CHECK(losses(std::uint8_t{}) == losses(int{}));
        CHECK(losses(std::uint32_t{}) == losses(int{}));
        CHECK(losses(std::size_t{}) == losses(int{}));
    }

    TEST_CASE("a float rounds whole numbers above 2^24 to the nearest, whatever type they have") {
        constexpr std::uint32_t exact = 1u << 24, large = 3'000'000'001; // the latter is above 2^31
        using same = any<network<input<2>, linear<2>>, squared_error>;
        same t({.batch = 1});
        t.load_parameters(std::vector<float>{1, 0, 0, 1, 0, 0});
        auto const said = [&]<class N>(N) {
            std::vector<N> const x{static_cast<N>(exact), static_cast<N>(large)};
            return t.predict(samples_in_memory(x, make_shape(2))).values();
        };
        std::vector<float> const wanted{static_cast<float>(exact), 3e9f};
        CHECK(said(std::uint32_t{}) == wanted);
        CHECK(said(std::uint64_t{}) == wanted);
        CHECK(said(std::int64_t{}) == wanted);
        CHECK(said(double{}) == wanted);
        std::vector<std::uint64_t> const above{std::uint64_t{3} << 62, (std::uint64_t{1} << 63) + 1};
        CHECK(t.predict(samples_in_memory(above, make_shape(2))).values() == std::vector<float>{0x3p62f, 0x1p63f});
    }

    TEST_CASE("rows of a table without targets are predicted, and a training on them is refused") {
        files::folder const folder;
        auto const table = [&](std::string const& name, std::string const& text) {
            return read_csv(folder.write(name, {text.begin(), text.end()}));
        };
        auto const measured = table("measured.csv", "a,b,kind\n0,5,x\n1,7,y\n2,5,x\n3,7,y\n");
        auto const asked = table("asked.csv", "b,a\n7,1\n5,3\n").samples({.inputs = {"a", "b"}});
        auto const known = measured.samples({.inputs = {"a", "b"}, .classes = "kind"});
        standardisation const scale(known);
        any<network<input<2>, linear<8>, relu, linear<2>>, cross_entropy> t({.learning_rate = 0.1f, .batch = 4},
                                                                            {.devices = 2});
        for (int i = 0; i < 100; ++i) t.step(scale(known));
        auto const said = t.predict(scale(asked)).all_classes();
        CHECK(said == std::vector<std::size_t>{1, 0});
        samples_in_memory const agreed(said, make_shape(1), said, 2);
        CHECK(agreed.targets().classes == 2); // classes that were predicted are labels
        CHECK(says(refusal([&] { t.step(scale(asked)); }), {"the samples have no targets", "cross_entropy", "labels"}));
        CHECK(says(refusal([&] { t.evaluate(scale(asked)); }), {"the samples have no targets"}));
        training_set const none{scale(asked), scale(asked)};
        CHECK(says(refusal([&] { (void)t.train(none, {.epochs = 1}); }), {"the samples have no targets"}));
        CHECK(says(refusal([&] { top_k_accuracy(t.predict(scale(asked)), asked, 1); }), {"these samples have none"}));
        CHECK(t.predict(scale(asked)).all_classes() == said); // the trainer works on
    }

    TEST_CASE("samples that a network or a loss cannot take are refused, and the trainer works on") {
        using values = any<network<input<6>, linear<3>>, squared_error>;
        using classes = any<network<input<6>, linear<3>>, cross_entropy>;
        made_up_table<float> const table(8);
        std::vector<int> const labels(8);
        samples_in_memory const labelled(table.inputs, make_shape(6), labels, 3);
        values of_values({.batch = 8});
        classes of_classes({.batch = 8});
        CHECK(says(refusal([&] { of_values.step(labelled); }), {"are classes", "squared_error wants values"}));
        CHECK(says(refusal([&] { of_classes.step(table); }), {"are values", "cross_entropy wants classes"}));
        samples_in_memory const other_shape(table.inputs, make_shape(4), table.targets, make_shape(2));
        CHECK(says(refusal([&] { of_values.step(other_shape); }), {"each sample is 4, 4 values", "has 6"}));
        std::vector<float> const fewer(16);
        CHECK(
            says(refusal([&] { of_values.step(samples_in_memory(table.inputs, make_shape(6), fewer, make_shape(2))); }),
                 {"has 2 targets", "squared_error wants 3"}));
        CHECK(says(refusal([&] { of_classes.step(samples_in_memory(table.inputs, make_shape(6), labels, 5)); }),
                   {"5 classes", "3 outputs", "linear<5>"}));

        /// A source without a part.
        struct without {
            samples_in_memory whole;
            bool has_inputs;
            std::size_t size() const { return whole.size(); }
            sample_rows inputs() const { return has_inputs ? whole.inputs() : sample_rows{}; }
            sample_rows targets() const { return has_inputs ? sample_rows{} : whole.targets(); }
        };
        CHECK(says(refusal([&] { of_values.step(without{table.samples(), false}); }), {"no inputs", "first layers"}));
        CHECK(says(refusal([&] { of_values.step(without{table.samples(), true}); }), {"no targets", "squared_error"}));
        CHECK(of_values.step(table).samples == 8);
        CHECK(of_classes.step(labelled).samples == 8);
    }

    TEST_CASE("more samples than indices of 32 bits count are refused before any is read, and the trainer works on") {
        /// A source that says so of one sample.
        struct too_many {
            made_up_table<float> one{1};
            std::size_t size() const { return std::size_t{1} << 32; }
            sample_rows inputs() const { return again(rows_of(one.inputs.data(), make_shape(6))); }
            sample_rows targets() const { return again(rows_of(one.targets.data(), make_shape(3))); }
            static sample_rows again(sample_rows rows) {
                rows.stride = 0;
                return rows;
            }
        };
        made_up_table<float> const table(8);
        too_many const all;
        any<network<input<6>, linear<3>>, squared_error> t({.batch = 8});
        auto const refused = [&](auto const& f) {
            return says(refusal(f), {"4294967296 samples do not fit the 32-bit indices", "in parts"});
        };
        training_set const tested_on_all{table.samples(), all};
        training_set const trained_on_all{all, table.samples()};
        REQUIRE(refused([&] { (void)t.fit(tested_on_all, {.epochs = 1}); })); // else 16 GiB are asked for below
        CHECK(refused([&] { t.step(all); }));
        CHECK(refused([&] { t.evaluate(all); }));
        CHECK(refused([&] { t.predict(all); }));
        CHECK(refused([&] { t.train(trained_on_all, {.epochs = 1}); }));
        CHECK(t.step(table).samples == 8);
    }

    TEST_CASE(
        "a label that a source of one's own promised not to have is refused, before a kernel takes it for a place") {
        using net = network<input<6>, linear<3>>;
        made_up_table<float> const table(8);
        /// A source that has never looked at its labels.
        struct careless {
            made_up_table<float> const* table;
            sample_rows labels;
            std::size_t size() const { return table->size(); }
            sample_rows inputs() const { return table->samples().inputs(); }
            sample_rows targets() const {
                auto rows = labels;
                rows.classes = 3;
                return rows;
            }
        };
        any<net, cross_entropy> t({.batch = 8});
        any<net, cross_entropy_with<ignoring<255>>> ignores({.batch = 8});
        for (int const wrong : {3, -1, 255, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}) {
            std::vector<int> labels(8, 2);
            labels[6] = wrong;
            careless const samples{&table, rows_of(labels.data(), make_shape(1))};
            std::string const text = "the label of sample 6 is " + std::to_string(wrong) + ",";
            char const* const label = text.c_str();
            CHECK(says(refusal([&] { t.step(samples); }), {label, "[0, 3):"}));
            CHECK(says(refusal([&] { t.evaluate(samples); }), {label}));
            CHECK(says(refusal([&] { top_k_accuracy(t.predict(samples), samples, 1); }), {label}));
            if (wrong == 255)
                CHECK(std::isfinite(ignores.step(samples).loss));
            else
                CHECK(says(refusal([&] { ignores.step(samples); }), {label, "[0, 3), or 255:"}));
        }
        std::vector<double> no_number(8, 1.0);
        no_number[7] = std::numeric_limits<double>::quiet_NaN();
        CHECK(says(refusal([&] { t.step(careless{&table, rows_of(no_number.data(), make_shape(1))}); }),
                   {"sample 7 is nan"}));
        std::vector<float> between(8, 1.0f);
        between[5] = 1.5f;
        CHECK(says(refusal([&] { t.step(careless{&table, rows_of(between.data(), make_shape(1))}); }),
                   {"the label of sample 5 is 1.5,", "whole numbers in [0, 3):"}));
        std::vector<std::uint8_t> const good(8, 2);
        CHECK(t.step(careless{&table, rows_of(good.data(), make_shape(1))}).samples == 8);
    }

    TEST_CASE("a target of logits is 0, 1 or a probability") {
        using net = network<input<6>, linear<3>>;
        any<net, binary_cross_entropy> t({.batch = 8}, {.devices = 2});
        std::vector<float> const inputs(6 * 8, 0.5f);
        std::vector<float> targets(3 * 8, 1.0f);
        auto const samples = [&] { return samples_in_memory(inputs, make_shape(6), targets, make_shape(3)); };
        targets[1] = 0, targets[2] = 0.25f;
        CHECK(std::isfinite(t.step(samples()).loss));
        for (float const wrong : {-1.0f, 1.5f, 255.0f, std::numeric_limits<float>::quiet_NaN()}) {
            targets[3 * 6 + 2] = wrong;
            std::string const text = "target 2 of sample 6 is " + number_text(static_cast<double>(wrong)) + ",";
            std::initializer_list<char const*> const words = {text.c_str(), "binary_cross_entropy",
                                                              "0, 1 or a probability", ": "};
            CHECK(says(refusal([&] { t.step(samples()); }), words));
            CHECK(says(refusal([&] { t.evaluate(samples()); }), words));
            CHECK(refusal([&] { t.predict(samples()); }) == "");
        }
        std::vector<std::uint8_t> const pixels(3 * 8, 255);
        struct scaled {
            samples_in_memory of;
            std::size_t size() const { return of.size(); }
            sample_rows inputs() const { return of.inputs(); }
            sample_rows targets() const {
                auto rows = of.targets();
                rows.scale = 1 / 255.0f; // the product is 1 in float, and more in double
                return rows;
            }
        };
        samples_in_memory const bytes(inputs, make_shape(6), pixels, make_shape(3));
        CHECK(says(refusal([&] { t.step(bytes); }), {"target 0 of sample 0 is 255,"}));
        CHECK(std::isfinite(t.step(scaled{bytes}).loss));
    }

    TEST_CASE("an epoch on a mapped file takes no memory for its samples") {
        if (left_out(sanitized, "a sanitizer keeps notes of all memory, a mapped file's as well")) return;
        constexpr std::size_t samples = 1 << 15, each = 4096; // 128 MiB
        files::folder const folder;
        auto const array = [&](std::string const& name, std::string const& shape, std::size_t bytes) {
            std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + shape + "), }";
            header.resize(117, ' ');
            files::bytes content{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
            content.reserve(128);
            content.insert(content.end(), header.begin(), header.end());
            content.push_back('\n');
            auto const path = folder.write(name, content);
            std::filesystem::resize_file(path, 128 + bytes); // takes no disk
            return map_npy(path);
        };
        auto const all = npy_samples(array("x", std::to_string(samples) + ", " + std::to_string(each), samples * each),
                                     array("y", std::to_string(samples) + ",", samples), 2);
        any<network<input<each>, linear<2>>, cross_entropy> t({.batch = 256}, {.devices = 2});
        t.step(all.take(0, 256));
        auto const before = memory_of_its_own();
        training_set const data{all.take(0, samples - 256), all.take(samples - 256, 256)};
        CHECK(t.train(data, {.epochs = 1}).test.accuracy == 1);
        CHECK(memory_of_its_own() < before + (std::size_t{16} << 20));
    }

    TEST_CASE("a plan counts the targets of a granule") {
        using values = any<network<input<6>, linear<3>>, squared_error>;
        using classes = any<network<input<6>, linear<3>>, cross_entropy>;
        auto const one = [](auto const& t) { return t.plan().memory().activations; };
        auto const lanes = portable::lanes<float>;
        auto const room = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
        CHECK(one(values({.batch = 8})) - one(classes({.batch = 8})) ==
              room(3 * lanes * sizeof(float)) - room(lanes * sizeof(int)));
    }
}

} // namespace trainer_samples_test
