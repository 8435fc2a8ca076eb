// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/weights.hpp>

#include <doctest/doctest.h>
#include <support/files.hpp>
#include <support/networks.hpp>

#include <trireme/kernels/reference/activation.hpp>
#include <trireme/kernels/reference/conv2d.hpp>
#include <trireme/kernels/reference/linear.hpp>
#include <trireme/kernels/reference/pool2d.hpp>
#include <trireme/kernels/reference/sgd.hpp>
#include <trireme/kernels/reference/softmax_cross_entropy.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trainer_weights_test {
using namespace trireme;
using namespace test_networks;

namespace {

/// 50 parameters: four cache lines in float, so that of five devices one has nothing to update.
using tiny = network<input<1, 28, 28>, avg_pool2d<14>, flatten, linear<10>>;

template<class Network, class Optimizer, class Place, class... Policies>
using holding = any_replicas<host, Network, cross_entropy, Optimizer, hold_weights<Place>, Policies...>;

template<class T>
struct run {
    std::vector<double> losses;
    std::vector<T> weights;
};

std::vector<std::size_t> const sizes = {64, 37, 1, 7, 65, 3, 16, 8};

/// A few steps with batches of different sizes, the learning rate changed on the way.
template<class Trainer>
run<typename Trainer::value_type> train(int devices, std::size_t logical_shards) {
    auto const images = made_up(300);
    Trainer t(
        {.learning_rate = 0.05f, .weight_decay = 0.001f, .batch = 64, .seed = 3, .logical_shards = logical_shards},
        {.devices = devices});
    run<typename Trainer::value_type> r;
    std::size_t first = 0;
    for (auto const n : sizes) {
        r.losses.push_back(t.step(images.take(first, n)).loss);
        if (n == 7) t.set_learning_rate(0.2f);
        first += n;
    }
    r.weights = weights(t);
    for (int d = 1; d < devices; ++d) CHECK(same_bits(r.weights, weights(t, d)));
    auto const test = t.evaluate(images);
    r.losses.push_back(test.loss);
    r.losses.push_back(test.accuracy);
    return r;
}

template<class Network, class Optimizer, class... Policies>
void once_equals_per_device() {
    using by_all = holding<Network, Optimizer, per_device, Policies...>;
    using by_one = holding<Network, Optimizer, once, Policies...>;
    for (int const devices : {1, 2, 3, 5}) {
        CAPTURE(devices);
        auto const expected = train<by_all>(devices, 0), got = train<by_one>(devices, 0);
        CHECK(same_bits(expected.weights, got.weights));
        CHECK(same_bits(expected.losses, got.losses));
    }
    auto const one = train<by_all>(1, 8);
    for (int const devices : {1, 2, 3, 4, 5}) { // reproducible<fixed_tree, 8>
        CAPTURE(devices);
        auto const many = train<by_one>(devices, 8);
        CHECK(same_bits(one.weights, many.weights));
        CHECK(same_bits(one.losses, many.losses));
    }
}

/// Steps with few samples, and the weights after them.
template<class Trainer>
run<typename Trainer::value_type> few_samples(int devices) {
    auto const images = made_up(100);
    Trainer t({.learning_rate = 0.05f, .batch = 64, .seed = 3}, {.devices = devices});
    run<typename Trainer::value_type> r;
    std::size_t first = 0;
    for (std::size_t const n : {1u, 2u, 3u, 5u, 8u, 9u, 17u, 33u}) {
        r.losses.push_back(t.step(images.take(first, n)).loss);
        first += n;
    }
    for (std::size_t const n : {1u, 3u, 17u}) {
        auto const test = t.evaluate(images.take(first, n));
        CHECK(test.samples == n);
        r.losses.push_back(test.loss);
        r.losses.push_back(test.accuracy);
        first += n;
    }
    r.weights = weights(t);
    return r;
}

template<class Dtype>
void portable_equals_reference(double tolerance) {
    for (int const devices : {1, 2}) {
        CAPTURE(devices);
        auto const expected = few_samples<any_layout<small, sgd, precision<Dtype>, kernels<reference>>>(devices);
        auto const got = few_samples<any_layout<small, sgd, precision<Dtype>>>(devices);
        REQUIRE(got.losses.size() == expected.losses.size());
        for (std::size_t i = 0; i < got.losses.size(); ++i)
            CHECK(got.losses[i] == doctest::Approx(expected.losses[i]).epsilon(tolerance));
        double worst = 0;
        for (std::size_t i = 0; i < got.weights.size(); ++i) {
            double const off = got.weights[i] - expected.weights[i];
            if (!(std::abs(off) <= worst)) worst = std::abs(off);
        }
        CHECK(worst <= tolerance);
    }
}

// ---- weights in files ----

/// With buffers, and names behind points.
using normed =
    network<input<1, 28, 28>, avg_pool2d<4>, conv2d<3, kernel<3>>, batch_norm<>, relu,
            residual<sequential<conv2d<3, kernel<3>, padding<1>>, named<"norm", batch_norm<>>>>, flatten, linear<10>>;

template<class Network, class... Policies>
using on_some = trainer<Network, cross_entropy, sgd_momentum, on<mesh<host, dp<dynamic>>>, Policies...>;

template<class Trainer>
std::vector<typename Trainer::value_type> statistics(Trainer const& t, int device = 0) {
    return held(t, device, true);
}

/// A trainer whose weights and statistics are no longer those that it began with.
template<class Trainer>
Trainer& some_steps(Trainer& t) {
    auto const images = made_up(128, 11);
    for (std::size_t const first : {0u, 32u, 64u}) t.step(images.take(first, 32));
    return t;
}

template<class Trainer>
void bits_come_back(int devices) {
    CAPTURE(devices);
    files::folder const folder;
    auto const path = folder.path("weights.safetensors");
    Trainer from({.learning_rate = 0.1f, .batch = 32, .seed = 1}, {.devices = devices});
    save_weights(some_steps(from), path, {{"of", "a test"}}, 3);
    for (int const others : {1, devices}) {
        Trainer to({.learning_rate = 0.1f, .batch = 32, .seed = 2}, {.devices = others});
        CHECK_FALSE(same_bits(weights(to), weights(from)));
        CHECK_FALSE(same_bits(statistics(to), statistics(from)));
        load_weights(to, path);
        for (int d = 0; d < others; ++d) {
            CHECK(same_bits(weights(to, d), weights(from)));
            CHECK(same_bits(statistics(to, d), statistics(from)));
        }
        auto const images = made_up(32, 12);
        // a mean of all samples is added up device by device
        CHECK(to.evaluate(images).loss == doctest::Approx(from.evaluate(images).loss).epsilon(1e-12));
    }
    CHECK(safetensors_file(path).metadata().at("of") == "a test");
}

/// The tensors of a file, to be changed and written again.
struct file_content {
    std::vector<safetensors_entry> entries;
    std::vector<std::vector<std::byte>> bytes;

    explicit file_content(std::string const& path) {
        safetensors_file const file(path);
        entries = file.tensors();
        for (auto const& entry : entries) file.read(entry, bytes.emplace_back(static_cast<std::size_t>(entry.bytes())));
    }
    std::size_t at(std::string const& name) const {
        for (std::size_t i = 0; i < entries.size(); ++i)
            if (entries[i].name == name) return i;
        FAIL("no tensor ", name);
        return 0;
    }
    void write(std::string const& path) const {
        std::vector<safetensors_tensor> tensors;
        for (std::size_t i = 0; i < entries.size(); ++i)
            tensors.push_back({entries[i].name, entries[i].dtype, entries[i].shape, bytes[i]});
        write_safetensors(path, std::move(tensors));
    }
};

/// Loading what `change` makes of a right file throws, names the file and all of `words`, and changes nothing.
template<class Dtype = f32>
void refused(std::function<void(file_content&)> const& change, std::vector<std::string> const& words) {
    files::folder const folder;
    auto const right = folder.path("right"), wrong = folder.path("wrong");
    on_some<normed, precision<Dtype>> from({.batch = 32}, {.devices = 1});
    save_weights(some_steps(from), right);
    file_content content(right);
    change(content);
    content.write(wrong);
    on_some<normed> to({.batch = 32, .seed = 2}, {.devices = 2});
    some_steps(to);
    auto const before = std::pair(weights(to), statistics(to));
    try {
        load_weights(to, wrong);
        FAIL("was loaded");
    } catch (data_error const& error) {
        CHECK(error.path() == wrong);
        std::string const said = error.what();
        CAPTURE(said);
        CHECK(said.find(wrong) != std::string::npos);
        for (auto const& word : words) {
            CAPTURE(word);
            CHECK(said.find(word) != std::string::npos);
        }
    }
    for (int d = 0; d < 2; ++d) {
        CHECK(same_bits(weights(to, d), before.first));
        CHECK(same_bits(statistics(to, d), before.second));
    }
    some_steps(to); // it goes on
}

/// Writes `path` with the loss of the first 256 training images, or reads what PyTorch has made of it.
void exchange_with_pytorch(std::string const& path) {
    CAPTURE(path);
    using resnet_trainer = on_some<as_in_the_book::resnet<4, 8, 12>>; // that of make_golden_residual.py
    auto const images = fashion_mnist::load().train;
    if (auto const torch = path + ".torch"; std::filesystem::exists(torch)) {
        resnet_trainer ours({.batch = 64, .seed = 1}, {.devices = 1}), theirs({.batch = 64, .seed = 2}, {.devices = 2});
        load_weights(ours, path);
        load_weights(theirs, torch);
        for (int d = 0; d < 2; ++d) {
            CHECK(same_bits(weights(ours), weights(theirs, d)));
            CHECK(same_bits(statistics(ours), statistics(theirs, d)));
        }
    } else {
        resnet_trainer t({.learning_rate = 0.05f, .batch = 64, .seed = 1}, {.devices = 1});
        for (std::size_t k = 0; k < 10; ++k) t.step(images.take(64 * k, 64));
        save_weights(t, path, {{"loss", std::to_string(t.evaluate(images.take(0, 256)).loss)}}, 10);
    }
}

} // namespace

TEST_SUITE("trainer/weights") {
    TEST_CASE("one copy of the weights: the bits of a copy per device, reproducible or not") {
        once_equals_per_device<softmax_regression, sgd_nesterov, precision<f64>>();
        once_equals_per_device<tiny, sgd_nesterov>();
        once_equals_per_device<tiny, sgd, precision<f64>>();
        once_equals_per_device<tiny, sgd_momentum, precision<f64>>();
    }

    TEST_CASE("negative control: another number of devices gives other bits") {
        using t = holding<softmax_regression, sgd, once>;
        CHECK_FALSE(same_bits(train<t>(2, 0).weights, train<t>(3, 0).weights));
    }

    TEST_CASE("types that fix the layout mean the same program") {
        auto const images = made_up(100);
        holding<tiny, sgd_momentum, per_device> expected({.batch = 50, .seed = 4, .logical_shards = 8}, {.devices = 3});
        trainer<tiny, cross_entropy, sgd_momentum, hold_weights<once>, reproducible<fixed_tree, 8>,
                on<mesh<host, dp<3>>>, reduce_by<direct>>
            got({.batch = 50, .seed = 4});
        for (auto const first : {0u, 50u})
            CHECK(got.step(images.take(first, 50)).loss == expected.step(images.take(first, 50)).loss);
        CHECK(same_bits(weights(expected), weights(got)));
    }

    TEST_CASE("held once, all devices compute with the same memory") {
        auto const where = [](auto const& t, int device) {
            std::vector<float const*> all;
            t.for_each_piece(device, [&](auto const& piece) { all.push_back(piece.values.data()); });
            return all;
        };
        holding<tiny, sgd, once> one({}, {.devices = 3});
        for (int const d : {0, 1, 2}) CHECK(where(one, d) == where(one, 0));
        CHECK(held(one, 2) == one.gather_parameters());
        CHECK(held(one, 2).size() == tiny::parameters);
        CHECK_THROWS_AS(held(one, 3), usage_error);
        holding<tiny, sgd, per_device> many({}, {.devices = 3});
        CHECK(where(many, 1) != where(many, 0));
        CHECK(held(many, 2) == many.gather_parameters());
        trainer<tiny, cross_entropy, sgd, on<mesh<host, dp<2>>>> by_default;
        CHECK(where(by_default, 1) != where(by_default, 0));
    }

    TEST_CASE("pieces have canonical coordinates: the tensors of the network, in their order") {
        on_some<normed> t({.seed = 3}, {.devices = 2});
        auto const tensors = tensors_of<normed>();
        auto const parameters = t.gather_parameters(), buffers = t.gather_buffers();
        for (int const rank : {0, 1}) {
            std::size_t next = 0;
            t.for_each_piece(rank, [&](auto const& piece) {
                auto const& tensor = tensors[next];
                CAPTURE(tensor.name);
                CHECK(piece.tensor == next++);
                CHECK(piece.first == 0);
                CHECK(piece.is_buffer == tensor.is_buffer);
                REQUIRE(piece.values.size() == tensor.shape.size());
                auto const& all = tensor.is_buffer ? buffers : parameters;
                CHECK(std::equal(piece.values.begin(), piece.values.end(),
                                 all.begin() + static_cast<std::ptrdiff_t>(tensor.first)));
            });
            CHECK(next == tensors.size());
        }
    }

    TEST_CASE("parameters that are loaded reach every device") {
        auto const images = made_up(64);
        std::vector<float> values(tiny::parameters);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i % 17);
        holding<tiny, sgd_momentum, once> one({.batch = 64}, {.devices = 5});
        holding<tiny, sgd_momentum, per_device> many({.batch = 64}, {.devices = 5});
        CHECK(one.step(images).loss == many.step(images).loss);
        one.load_parameters(values);
        many.load_parameters(values);
        for (int d = 0; d < 5; ++d) CHECK(same_bits(weights(one, d), values));
        for (int d = 0; d < 5; ++d) CHECK(same_bits(weights(many, d), values));
        CHECK(one.evaluate(images).loss == many.evaluate(images).loss);
        CHECK(one.step(images).loss == many.step(images).loss); // with the momentum of the step before
        CHECK(same_bits(weights(one), weights(many)));
    }

    TEST_CASE("whole epochs, and a test after each") {
        auto const images = made_up(200);
        holding<tiny, sgd_momentum, once> one({.batch = 64, .seed = 2}, {.devices = 4});
        holding<tiny, sgd_momentum, per_device> many({.batch = 64, .seed = 2}, {.devices = 4});
        std::vector<double> told_one, told_many;
        for (auto const& e : one.fit({images, images.take(0, 99)}, {.epochs = 3}))
            told_one.insert(told_one.end(), {e.loss, e.test.loss, e.test.accuracy});
        for (auto const& e : many.fit({images, images.take(0, 99)}, {.epochs = 3}))
            told_many.insert(told_many.end(), {e.loss, e.test.loss, e.test.accuracy});
        CHECK(told_one.size() == 9);
        CHECK(same_bits(told_one, told_many));
        CHECK(same_bits(weights(one), weights(many)));
    }
}

TEST_SUITE("trainer/weights in files") {
    TEST_CASE("bits come back, with running statistics, on every device") {
        bits_come_back<on_some<normed>>(1);
        bits_come_back<on_some<normed>>(3);
        bits_come_back<on_some<normed, precision<f64>>>(2);
        bits_come_back<on_some<normed, hold_weights<once>>>(3);
    }

    TEST_CASE("a float is a double without a change") {
        files::folder const folder;
        on_some<normed> narrow({.batch = 32}, {.devices = 1});
        on_some<normed, precision<f64>> wide({.batch = 32, .seed = 2}, {.devices = 2});
        save_weights(some_steps(narrow), folder.path("f32"));
        load_weights(wide, folder.path("f32"));
        auto const p = weights(narrow), b = statistics(narrow);
        CHECK(same_bits(weights(wide), std::vector<double>(p.begin(), p.end())));
        CHECK(same_bits(statistics(wide), std::vector<double>(b.begin(), b.end())));
    }

    TEST_CASE("the file has PyTorch's names, shapes and dtypes") {
        files::folder const folder;
        on_some<normed> t({.batch = 32}, {.devices = 1});
        save_weights(t, folder.path("w"), {}, 1'234'567'890'123);
        safetensors_file const file(folder.path("w"));
        CHECK(file.tensors().size() == 6 + 8 + 2); // of conv2d, conv2d, linear; of two batch norms; their counts
        CHECK(file.at("1.weight").shape == std::vector<std::size_t>{3, 1, 3, 3});
        CHECK(file.at("2.running_var").shape == std::vector<std::size_t>{3});
        CHECK(file.at("4.norm.running_mean").dtype == safetensors_dtype::f32);
        CHECK(file.at("6.weight").shape == std::vector<std::size_t>{10, 75});
        auto const& count = file.at("4.norm.num_batches_tracked");
        CHECK(count.dtype == safetensors_dtype::i64);
        CHECK(count.shape.empty());
        std::int64_t read = 0;
        file.read(count, std::as_writable_bytes(std::span(&read, 1)));
        CHECK(read == 1'234'567'890'123);
    }

    TEST_CASE("a file without counts of batches is whole, for nothing depends on them") {
        files::folder const folder;
        on_some<normed> from({.batch = 32}, {.devices = 1}), to({.batch = 32, .seed = 2}, {.devices = 1});
        save_weights(some_steps(from), folder.path("with"));
        file_content content(folder.path("with"));
        for (std::size_t i = content.entries.size(); i-- > 0;)
            if (content.entries[i].name.ends_with("num_batches_tracked")) {
                content.entries.erase(content.entries.begin() + static_cast<std::ptrdiff_t>(i));
                content.bytes.erase(content.bytes.begin() + static_cast<std::ptrdiff_t>(i));
            }
        CHECK(content.entries.size() == 14);
        content.write(folder.path("without"));
        load_weights(to, folder.path("without"));
        CHECK(same_bits(weights(to), weights(from)));
        CHECK(same_bits(statistics(to), statistics(from)));
    }

    TEST_CASE("a file that is not this network's is refused, and nothing is changed") {
        refused([](file_content& c) { c.entries[c.at("1.bias")].name = "1.bios"; }, {"'1.bias'", "no tensor"});
        refused([](file_content& c) { c.entries[c.at("6.weight")].name = "7.weight"; }, {"'6.weight'"});
        refused([](file_content& c) { c.entries[c.at("2.running_mean")].name = "running"; }, {"'2.running_mean'"});
        refused([](file_content& c) { c.entries[c.at("1.weight")].shape = {3, 3, 3, 1}; },
                {"'1.weight'", "[3, 3, 3, 1]", "[3, 1, 3, 3]"});
        refused([](file_content& c) { c.entries[c.at("6.weight")].shape = {750}; },
                {"'6.weight'", "[750]", "[10, 75]"});
        refused(
            [](file_content& c) {
                auto more = c.entries[c.at("6.bias")];
                more.name = "8.bias";
                c.entries.push_back(more);
                c.bytes.push_back(c.bytes[c.at("6.bias")]);
            },
            {"8.bias", "another network"});
        refused([](file_content& c) { c.entries[c.at("6.bias")].dtype = safetensors_dtype::i32; },
                {"'6.bias'", "I32", "F32"});
        refused<f64>([](file_content&) {}, {"'1.weight'", "F64", "F32"}); // would lose bits
    }

    TEST_CASE("no file") {
        files::folder const folder;
        on_some<normed> t({.batch = 32}, {.devices = 1});
        auto const before = weights(t);
        CHECK_THROWS_WITH_AS(load_weights(t, folder.path("none")), doctest::Contains("none"), data_error);
        CHECK(same_bits(weights(t), before));
        CHECK_THROWS_AS(save_weights(t, folder.path("no/such/folder")), data_error);
    }

    TEST_CASE("what the optimizer keeps stays") {
        files::folder const folder;
        auto const images = made_up(32, 13);
        on_some<normed> file({.batch = 32}, {.devices = 2}), by_hand({.batch = 32}, {.devices = 2});
        on_some<normed> const other({.batch = 32, .seed = 9}, {.devices = 1});
        save_weights(other, folder.path("w"));
        some_steps(file);
        some_steps(by_hand); // the same momentum
        load_weights(file, folder.path("w"));
        by_hand.load_parameters(other.gather_parameters());
        auto const other_buffers = other.gather_buffers();
        CHECK_THROWS_AS(by_hand.load_buffers(std::span(other_buffers).first(1)), usage_error);
        by_hand.load_buffers(other_buffers);
        for (int k = 0; k < 2; ++k) CHECK(file.step(images).loss == by_hand.step(images).loss);
        CHECK(same_bits(weights(file), weights(by_hand)));
        CHECK(same_bits(statistics(file), statistics(by_hand)));
    }

    // Runs when tests/golden/torch_state.py starts it.
    TEST_CASE("PyTorch's files, and those that it reads") {
        if (auto const* const path = std::getenv("TRIREME_TEST_WEIGHTS")) exchange_with_pytorch(path);
    }
}

TEST_SUITE("trainer/few_samples") {
    TEST_CASE("samples that go one by one give the losses and weights of the reference") {
        portable_equals_reference<f32>(1e-5);
        portable_equals_reference<f64>(1e-12);
    }
}

} // namespace trainer_weights_test
