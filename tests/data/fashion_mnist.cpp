// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/fashion_mnist.hpp>

#include "files.hpp"

#include <doctest/doctest.h>
#include <support/left_out.hpp>

#include <array>
#include <cmath>
#include <filesystem>

namespace data_fashion_mnist_test {
namespace {

using files::bytes;

constexpr char const* variable = "TRIREME_FASHION_MNIST";
constexpr char const* package = "/usr/share/datasets/fashion-mnist";

/// A small set of the right form: `count` images, image i filled with `first` + i.
void write_part(files::folder const& folder, std::string const& images, std::string const& labels, std::uint32_t count,
                std::uint8_t first, bool zip) {
    bytes pixels, names;
    for (std::uint32_t i = 0; i < count; ++i) {
        pixels.insert(pixels.end(), 784, static_cast<std::uint8_t>(first + i));
        names.push_back(static_cast<std::uint8_t>(i % 10));
    }
    auto const pack = [zip](bytes const& content) { return zip ? files::zipped(content) : content; };
    folder.write(images, pack(files::idx_images(count, 28, 28, pixels)));
    folder.write(labels, pack(files::idx_labels(count, names)));
}

void write_set(files::folder const& folder, std::string const& joint, std::string const& ending,
               std::uint8_t first = 1) {
    auto const zip = !ending.empty();
    auto const images = joint + "idx3-ubyte" + ending, labels = joint + "idx1-ubyte" + ending;
    write_part(folder, "train-images" + images, "train-labels" + labels, 12, first, zip);
    write_part(folder, "t10k-images" + images, "t10k-labels" + labels, 5, 101, zip);
}

void check_set(trireme::dataset const& data, std::uint8_t first = 1) {
    REQUIRE(data.train.size() == 12);
    REQUIRE(data.test.size() == 5);
    CHECK(data.train.classes() == 10);
    CHECK(data.test.values_per_image() == 784);
    CHECK(data.train.image(11)[783] == first + 11);
    CHECK(data.test.image(0)[0] == 101);
    CHECK(data.train.label(11) == 1);
}

} // namespace

TEST_SUITE("data/fashion_mnist") {
    TEST_CASE("the files are found plain or gzip, with either spelling") {
        for (auto const* joint : {"-", "."}) {
            for (auto const* ending : {"", ".gz"}) {
                CAPTURE(joint);
                CAPTURE(ending);
                files::folder const folder;
                write_set(folder, joint, ending);
                check_set(trireme::fashion_mnist::load(folder.path()));
                check_set(trireme::fashion_mnist::load(folder.path() + "/"));
            }
        }
    }

    TEST_CASE("the argument goes before the environment, and that before the package") {
        files::folder const passed, named;
        write_set(passed, "-", ".gz", 1);
        write_set(named, "-", ".gz", 50);
        files::environment const set(variable, named.path().c_str());
        check_set(trireme::fashion_mnist::load(passed.path()), 1);
        check_set(trireme::fashion_mnist::load(), 50);
    }

    TEST_CASE("what is missing is named, with the remedy") {
        auto const load = [](std::string const& directory) {
            return [directory] { trireme::fashion_mnist::load(directory); };
        };
        files::folder const folder;
        auto const none = folder.path("none");
        for (auto const* remedy : {"apt-get install dataset-fashion-mnist", "--data DIR", "TRIREME_FASHION_MNIST",
                                   "the folder that was passed is not there"}) {
            files::expect_data_error(load(none), none, 0, remedy);
        }
        {
            files::environment const set(variable, none.c_str());
            files::expect_data_error(load({}), none, 0, "the folder in TRIREME_FASHION_MNIST is not there");
        }
        auto const file = folder.write("file", {1});
        files::expect_data_error(load(file), file, 0, "is no folder");

        write_set(folder, "-", ".gz");
        for (auto const* name : {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                                 "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"}) {
            auto const path = folder.path(name), aside = folder.path("aside");
            std::filesystem::rename(path, aside);
            files::expect_data_error(load(folder.path()), path, 0, "apt-get install dataset-fashion-mnist");
            std::filesystem::rename(aside, path);
        }
        check_set(trireme::fashion_mnist::load(folder.path()));
    }

    TEST_CASE("images of another size and labels of another set are refused") {
        files::folder const folder;
        write_set(folder, "-", "");
        auto const images = folder.write("t10k-images-idx3-ubyte", files::idx_images(5, 32, 28, bytes(5 * 32 * 28)));
        files::expect_data_error([&] { trireme::fashion_mnist::load(folder.path()); }, images, 8, "must be 28");
        write_set(folder, "-", "");
        auto const labels = folder.write("train-labels-idx1-ubyte", files::idx_labels(12, bytes(12, 10)));
        files::expect_data_error([&] { trireme::fashion_mnist::load(folder.path()); }, labels, 8, "label 0 is 10");
    }

    TEST_CASE("the real set, from Debian's package") {
        if (test_support::left_out(!std::filesystem::exists(package),
                                   "the package dataset-fashion-mnist is not installed"))
            return;
        files::environment const empty(variable, ""); // an empty variable counts as none
        auto const data = trireme::fashion_mnist::load();
        REQUIRE(data.train.size() == 60000);
        REQUIRE(data.test.size() == 10000);
        for (auto const* part : {&data.train, &data.test}) {
            std::array<std::size_t, 10> count = {};
            for (std::size_t i = 0; i < part->size(); ++i) ++count[part->label(i)];
            for (auto const n : count) CHECK(n == part->size() / 10); // as the paper says
        }
        for (std::size_t i = 0; i < 8; ++i) {
            CHECK(data.train.label(i) == std::array{9, 0, 0, 3, 0, 2, 7, 2}[i]);
            CHECK(data.test.label(i) == std::array{9, 2, 1, 1, 6, 1, 4, 6}[i]);
        }
        double sum = 0, squares = 0;
        for (std::size_t i = 0; i < data.train.size(); ++i) {
            std::uint32_t row = 0, square = 0; // 784 * 255^2 < 2^32
            for (auto const value : data.train.image(i)) row += value, square += std::uint32_t{value} * value;
            sum += row, squares += square;
        }
        auto const values = 60000.0 * 784;
        auto const mean = sum / values / 255;
        CHECK(mean == doctest::Approx(0.2860).epsilon(1e-3)); // the constants that everybody normalises with
        CHECK(std::sqrt(squares / values / 65025 - mean * mean) == doctest::Approx(0.3530).epsilon(1e-3));
    }
}

} // namespace data_fashion_mnist_test
