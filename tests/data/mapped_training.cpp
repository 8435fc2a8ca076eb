// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Trainings on mapped files that are split and standardised, beside those on copies in memory.

#include <trireme/readers.hpp>
#include <trireme/rehearsal.hpp>
#include <trireme/trireme.hpp>

#include "npy_files.hpp"

#include <doctest/doctest.h>
#include <support/compare.hpp>
#include <support/left_out.hpp>
#include <support/messages.hpp>
#include <support/own_memory.hpp>
#include <support/sanitizers.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace data_mapped_training_test {
namespace {

using namespace trireme;
using test_support::left_out;
using test_support::memory_of_its_own;
using test_support::refusal;
using test_support::same_bits;
using test_support::says;

using seeing = network<input<2, 6, 6>, conv2d<4, kernel<3>>, relu, flatten, linear<3>>;
template<class Device>
using learner = trainer<seeing, cross_entropy, sgd, on<mesh<Device, dp<2>>>>;

struct result {
    std::vector<float> parameters, outputs;
    double train_loss, test_loss, accuracy;
};

/// A program learns photographs of a file, which are read or mapped.
template<class Device>
result trained(npy_array const& images, npy_array const& labels) {
    auto const photographs = npy_samples(images, labels, 3).scaled(1.0 / 255);
    auto const parts = split(photographs, 0.25, 1);
    standardisation const scale(parts.train, standardised::per_channel);
    auto const train = scale(parts.train), test = scale(parts.test);
    learner<Device> t({.learning_rate = 0.1f, .batch = 8, .seed = 3});
    auto const last = t.train(training_set{augmented(train, {.crop_padding = 1, .flip = true}), test}, {.epochs = 3});
    auto const said = t.predict(test);
    return {t.gather_parameters(),
            {said.values().begin(), said.values().end()},
            last.loss,
            last.test.loss,
            last.test.accuracy};
}

} // namespace

TEST_SUITE("data/mapped_training") {
    TEST_CASE_TEMPLATE("a training on a mapped file has the bits of one in memory", Device, host, rehearsal) {
        files::folder const folder;
        files::bytes pixels(60 * 72), labels(60);
        for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * i * 7 % 253);
        for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::uint8_t>(i % 3);
        auto const x = files::write_npy(folder, "x.npy", "|u1", {60, 2, 6, 6}, 1, pixels);
        auto const y = files::write_npy(folder, "y.npy", "|u1", {60}, 1, labels);
        auto const copies = trained<Device>(read_npy(x), read_npy(y)), views = trained<Device>(map_npy(x), map_npy(y));
        CHECK(same_bits(copies.parameters, views.parameters));
        CHECK(same_bits(copies.outputs, views.outputs));
        CHECK(copies.train_loss == views.train_loss);
        CHECK(copies.test_loss == views.test_loss);
        CHECK(copies.accuracy == views.accuracy);
    }

    TEST_CASE("a mapped file that is split, standardised and learned takes no memory") {
        if (left_out(sanitized, "a sanitizer keeps notes of all memory, a mapped file's as well")) return;
        constexpr std::size_t samples = 1 << 13, each = 4096; // 32 MiB, and 128 MiB as float
        files::folder const folder;
        auto const x = files::write_npy(folder, "x.npy", "|u1", {samples, each}, 1, {1, 2, 3, 4, 5});
        auto const y = files::write_npy(folder, "y.npy", "|u1", {samples}, 1, {});
        auto const all = npy_samples(map_npy(x), read_npy(y), 2);
        trainer<network<input<each>, linear<2>>, cross_entropy, sgd> t({.batch = 256});
        t.step(all.take(0, 256));
        auto const before = memory_of_its_own();
        auto const parts = split(all, split_counts{samples - 256, 256}, 1);
        standardisation const scale(parts.train);
        training_set const data{scale(parts.train), scale(parts.test)};
        CHECK(t.train(data, {.epochs = 1}).test.accuracy == 1);
        CHECK(memory_of_its_own() < before + (std::size_t{8} << 20));
    }

    TEST_CASE("tokens of a mapped file that are standardised are no tokens") {
        files::folder const folder;
        auto const path = folder.write("tokens.bin", files::bytes(64, 3));
        auto const windows = file_windows<std::uint8_t>(path, 4, 8);
        trainer<network<input<4>, embedding<8, 8>>, cross_entropy, sgd> t({.batch = 4});
        CHECK(t.step(windows).samples == windows.size());
        standardisation const scale({0, 0, 0, 0}, {1, 1, 1, 1});
        CHECK(says(refusal([&] { t.step(scale(windows)); }),
                   {"the inputs are standardised", "takes tokens as they are: leave out the standardisation"}));
    }
}

} // namespace data_mapped_training_test
