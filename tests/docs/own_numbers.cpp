// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The code of the guide's chapter on samples and losses of one's own, as guide.cpp has that of the others.

#include <doctest/doctest.h>
#include <support/files.hpp>
#include <trireme/readers.hpp>
#include <trireme/trireme.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

using namespace trireme;

namespace {

// [own_loss]
struct absolute_error {
    static constexpr loss_description describe(shape output) {
        return {.flops = 3 * output.size(), .targets = output}; // a target for each value; classes would say how many
    }
    static void forward(auto const& io) { // the loss of each sample of a granule
        using io_t = std::remove_cvref_t<decltype(io)>;
        for (std::size_t lane = 0; lane < io_t::lanes; ++lane) {
            io.loss[lane] = 0;
            for (std::size_t i = 0; i < io_t::input::size; ++i)
                io.loss[lane] += std::abs(io.x(lane, i) - io.target(lane, i));
        }
    }
    static void backward(auto const& io) { // the same, and its gradient by x, times the sample's weight
        using io_t = std::remove_cvref_t<decltype(io)>;
        forward(io);
        for (std::size_t lane = 0; lane < io_t::lanes; ++lane)
            for (std::size_t i = 0; i < io_t::input::size; ++i)
                io.dx(lane, i) = io.x(lane, i) < io.target(lane, i) ? -io.weight[lane] : io.weight[lane];
    }
};
// [/own_loss]

// [weighted_loss]
struct trusting_squared_error { // x: one value; its targets: the value that was measured, and how far to trust it
    static constexpr loss_description describe(shape) { return {.flops = 5, .targets = make_shape(2)}; }
    static double weight(auto const* targets) { return double(targets[1]); } // not negative; 0 leaves the sample out
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        for (std::size_t lane = 0; lane < io_t::lanes; ++lane) {
            auto const off = io.x(lane, 0) - io.target(lane, 0), trust = io.target(lane, 1);
            io.loss[lane] = trust * off * off;
        }
    }
    static void backward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        forward(io);
        for (std::size_t lane = 0; lane < io_t::lanes; ++lane) {
            auto const off = io.x(lane, 0) - io.target(lane, 0), trust = io.target(lane, 1);
            io.dx(lane, 0) = io.weight[lane] * trust * 2 * off; // io.weight: 1 / the sum of the batch's weights
        }
    }
};
// [/weighted_loss]
// [adding_layer]
struct sparse { // y = x; the mean of |x| is added to the loss, which makes most values small
    static constexpr layer_description describe(shape in) {
        layer_description d;
        d.output = in;
        d.adds_to_loss = true;
        return d;
    }
    static void forward(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        for (std::size_t i = 0; i < io.x.size(); ++i) io.y[i] = io.x[i];
        if (io.place.loss == nullptr) return; // outside of training
        for (std::size_t lane = 0; lane < io_t::lanes; ++lane) {
            auto& term = io.place.loss[lane] = 0;
            for (std::size_t i = lane; i < io.x.size(); i += io_t::lanes) term += std::abs(io.x[i]) / io_t::input::size;
        }
    }
    static void backward_input(auto const& io) {
        using io_t = std::remove_cvref_t<decltype(io)>;
        for (std::size_t i = 0; i < io.x.size(); ++i) {
            auto const slope = (io.x[i] > 0 ? 1 : -1) * io.place.loss_weight[i % io_t::lanes] / io_t::input::size;
            io.dx[i] = io.dy[i] + slope;
        }
    }
};
// [/adding_layer]

// [rare_ones_first]
struct rare_ones_first {
    static constexpr double of[] = {1, 5, 5};
};
// [/rare_ones_first]

} // namespace

TEST_SUITE("docs/own_numbers") {
    TEST_CASE("numbers of one's own") {
        // [own_samples]
        std::vector<float> lengths; // 4 of each flower
        std::vector<int> species;   // one of 3
        for (int i = 0; i < 150; ++i) {
            species.push_back(i % 3);
            for (int k = 0; k < 4; ++k) lengths.push_back(float(species.back() * k) + float(i % 7) / 7);
        }
        samples_in_memory const flowers(lengths, make_shape(4), species, 3);
        using classifier = network<input<4>, linear<16>, relu, linear<3>>;
        trainer<classifier, cross_entropy, sgd> t{{.learning_rate = 0.1f, .batch = 30}};
        for (int i = 0; i < 100; ++i) t.step(flowers);
        auto const test = t.evaluate(flowers);
        // [/own_samples]
        CHECK(test.accuracy == 1);

        // [use_own_loss]
        std::vector<double> times, heights; // where a stone is that falls for 2 seconds
        for (int i = 0; i < 200; ++i) {
            times.push_back(i / 100.0);
            heights.push_back(20 - 4.9 * times.back() * times.back());
        }
        samples_in_memory const stone(times, make_shape(1), heights, make_shape(1));
        using curve = network<input<1>, linear<32>, hyperbolic_tangent, linear<1>>;
        trainer<curve, absolute_error, sgd, on<mesh<host, dp<2>>>> fall{{.learning_rate = 0.02f, .batch = 50}};
        auto const last = fall.train(training_set{stone, stone}, {.epochs = 400}); // learnt from, and tested with
        // [/use_own_loss]
        CHECK(last.test.loss < 1); // metres, of 20
    }

    TEST_CASE("losses with weights") {
        // [class_weights]
        std::vector<float> lengths; // 4 of each flower
        std::vector<int> species;   // one of 3, mostly the first, or -1
        for (int i = 0; i < 140; ++i) {
            int const found = i % 7 < 5 ? 0 : i % 7 - 4;
            for (int k = 0; k < 4; ++k) lengths.push_back(float(found * k) + float(i % 11) / 11);
            species.push_back(i % 10 == 0 ? -1 : found);
        }
        samples_in_memory const flowers(lengths, make_shape(4), species, 3, -1); // -1: a label to ignore
        using classifier = network<input<4>, linear<16>, relu, linear<3>>;
        using loss_of_flowers = cross_entropy_with<class_weights<rare_ones_first>, ignoring<-1>>;
        trainer<classifier, loss_of_flowers, sgd> t{{.learning_rate = 0.1f, .batch = 140}};
        for (int i = 0; i < 200; ++i) t.step(flowers);
        auto const test = t.evaluate(flowers); // its accuracy is that of the 126 flowers that count
        // [/class_weights]
        CHECK(test.accuracy > 0.95);
        CHECK(test.samples == 140);

        // [check_weighted_loss]
        bool const right = check_loss_gradients<trusting_squared_error, input<1>>().ok();
        // [/check_weighted_loss]
        CHECK(right);
        std::vector<double> const places{0, 1, 2, 3}, measured{0, 1, 1, 1, 50, 0, 3, 0.5}; // the third is not trusted
        using line = network<input<1>, linear<1>>;
        trainer<line, trusting_squared_error, sgd> fit{{.learning_rate = 0.1f, .batch = 4}};
        samples_in_memory const points(places, make_shape(1), measured, make_shape(2));
        for (int i = 0; i < 500; ++i) fit.step(points);
        CHECK(fit.evaluate(points).loss < 1e-6);
    }

    TEST_CASE("a layer of one's own adds to the loss") {
        // [adding_network]
        bool const derivatives_right = check_gradients<sparse, input<6>>().ok(); // of the whole loss
        using penalised = network<input<6>, linear<16>, sparse, linear<8>, activity_penalty<percent<10>>, linear<3>>;
        trainer<penalised, cross_entropy, sgd, on<mesh<host, pp<2>>>> in_stages{{.learning_rate = 0.1f, .batch = 32}};
        // [/adding_network]
        CHECK(derivatives_right);
        std::vector<float> numbers;
        std::vector<int> labels;
        for (int i = 0; i < 32 * 6; ++i) numbers.push_back(float(i * i % 17) / 17);
        for (int i = 0; i < 32; ++i) labels.push_back(i % 3);
        samples_in_memory const table(numbers, make_shape(6), labels, 3);
        double const first = in_stages.step(table).loss;
        for (int i = 0; i < 50; ++i) in_stages.step(table);
        CHECK(in_stages.step(table).loss < first);
        CHECK(in_stages.step(table).loss > in_stages.evaluate(table).loss);
    }

    TEST_CASE("numbers in files") {
        files::folder const folder;
        std::string text = "length,width,species\n";
        for (int i = 0; i < 60; ++i)
            text += std::to_string(i % 3 + i % 7 / 10.0) + "," + std::to_string(5 - i % 3) +
                    (i % 3 == 0   ? ",setosa\n"
                     : i % 3 == 1 ? ",versicolor\n"
                                  : ",virginica\n");
        auto const path = folder.write("flowers.csv", {text.begin(), text.end()});
        // [csv]
        auto const table = read_csv(path); // length,width,species in its first line, then 1.2,4,setosa and so on
        auto const flowers = table.samples({.classes = "species"}); // inputs: all other columns
        auto const parts = split(flowers, 0.25, 1);                 // a quarter to test with, chosen by seed 1
        standardisation const scale(parts.train);
        training_set const data{scale(parts.train), scale(parts.test)};
        using classifier = network<input<2>, linear<16>, relu, linear<3>>;
        trainer<classifier, cross_entropy, adam, on<mesh<host, dp<2>>>> t{{.learning_rate = 0.01f, .batch = 15}};
        auto const last = t.train(data, {.epochs = 30});
        auto const first_class = flowers.class_names()[0]; // "setosa"
        // [/csv]
        CHECK(last.test.accuracy > 0.9);
        CHECK(first_class == "setosa");
        std::string const rows = "width,length\n5,0.3\n3,2.4\n4,1.1\n";
        auto const path_of_asked = folder.write("asked.csv", {rows.begin(), rows.end()});
        auto const path_of_scale = folder.path("scale.safetensors");
        // [asked]
        auto const asked = read_csv(path_of_asked).samples({.inputs = {"length", "width"}}); // nobody knows the species
        auto const said = t.predict(scale(asked)); // scaled as the samples to train with
        std::vector<std::string> species;
        for (auto const c : said.all_classes()) species.push_back(flowers.class_names()[c]);
        scale.save(path_of_scale); // beside the weights; standardisation::load(path_of_scale) reads it
        // [/asked]
        CHECK(species == std::vector<std::string>{"setosa", "virginica", "versicolor"});
        CHECK(t.predict(standardisation::load(path_of_scale)(asked)).values()[0] == said.values()[0]);
    }

    TEST_CASE("words in files") {
        files::folder const folder;
        std::string const first = "size,colour,sold\n38,red,yes\n40,green,no\n42,blue,yes\n";
        std::string const second = "colour,size\ngreen,44\n";
        auto const path_of_shirts = folder.write("shirts.csv", {first.begin(), first.end()});
        auto const path_of_offered = folder.write("offered.csv", {second.begin(), second.end()});
        // [csv_words]
        auto const shirts = read_csv(path_of_shirts); // size,colour,sold in its first line, then 38,red,yes and so on
        auto const words = shirts.words({"colour"});  // {"colour", {"blue", "green", "red"}}
        auto const sold = shirts.samples({.words = words, .classes = "sold"}); // inputs: size, blue, green, red
        auto const offered = read_csv(path_of_offered).samples({.inputs = {"size", "colour"}, .words = words});
        // [/csv_words]
        CHECK(words.at("colour") == std::vector<std::string>{"blue", "green", "red"});
        CHECK(sold.inputs().size() == 4);
        CHECK(reinterpret_cast<double const*>(offered.inputs().of(0))[2] == 1);
    }

    TEST_CASE("arrays in files, and images that are changed") {
        files::folder const folder;
        auto const array = [](std::string const& description, std::size_t bytes) {
            std::string all = std::string("\x93NUMPY\x01\0\x76\0", 10) + description;
            all.resize(128, ' ');
            all.resize(128 + bytes, '\1');
            return files::bytes(all.begin(), all.end());
        };
        auto const images_file =
            folder.write("x.npy", array("{'descr': '|u1', 'fortran_order': False, 'shape': (4, 3, 8, 8), }", 768));
        auto const labels_file =
            folder.write("y.npy", array("{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }", 4));
        // [npy]
        auto const images = map_npy(images_file); // of shape (samples, 3, 8, 8)
        auto const labels = read_npy(labels_file);
        auto const photographs = npy_samples(images, labels, 10).scaled(1.0 / 255); // 10 classes
        // [/npy]
        // [per_channel]
        standardisation const of_colours(photographs, standardised::per_channel);
        auto const even = of_colours(photographs); // as float: a view of a mapped file, else a copy
        // [/per_channel]
        CHECK(of_colours.means().size() == 3);
        CHECK(even.inputs().shape == make_shape(3, 8, 8));
        CHECK(photographs.size() == 4);
        CHECK(photographs.inputs().shape == make_shape(3, 8, 8));
        // [augmented]
        using seeing = network<input<3, 8, 8>, conv2d<8, kernel<3>>, relu, flatten, linear<10>>;
        trainer<seeing, cross_entropy, adam, on<mesh<host, dp<2>>>> t{{.batch = 2}};
        auto const changing = augmented(photographs, {.crop_padding = 2, .flip = true});
        auto const last = t.train(training_set{changing, photographs}, {.epochs = 2});
        // [/augmented]
        CHECK(last.tested);
    }
}
