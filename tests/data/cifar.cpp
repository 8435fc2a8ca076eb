// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/data/cifar.hpp>

#include "files.hpp"

#include <doctest/doctest.h>
#include <support/damaged_files.hpp>

#include <filesystem>

namespace data_cifar_test {
namespace {

using namespace trireme;
using files::bytes;

constexpr char const* variable = "TRIREME_CIFAR10";
constexpr char const* names[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                 "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};

/// Record i has the label first + i, and pixel p of it the value label + p.
bytes records(std::size_t count, std::size_t first) {
    bytes all;
    for (std::size_t i = 0; i < count; ++i) {
        auto const label = (first + i) % 10;
        all.push_back(static_cast<std::uint8_t>(label));
        for (std::size_t p = 0; p < 3072; ++p) all.push_back(static_cast<std::uint8_t>(label + p));
    }
    return all;
}

/// File k begins with label k and has k + 1 records.
void write_set(std::string const& folder) {
    for (std::size_t k = 0; k < 6; ++k) {
        std::ofstream out(folder + "/" + names[k], std::ios::binary | std::ios::trunc);
        auto const content = records(k + 1, k);
        out.write(reinterpret_cast<char const*>(content.data()), static_cast<std::streamsize>(content.size()));
    }
}

std::uint8_t byte_of(sample_rows const& rows, std::size_t sample, std::size_t i = 0) {
    return std::to_integer<std::uint8_t>(rows.of(sample)[i]);
}

void check_set(training_set<owned_samples> const& data) {
    REQUIRE(data.train.size() == 15);
    REQUIRE(data.test.size() == 6);
    for (auto const* part : {&data.train, &data.test}) {
        CHECK(part->inputs().shape == make_shape(3, 32, 32));
        CHECK(part->inputs().kind == number_kind::u8);
        CHECK(part->inputs().scale == 1.0 / 255);
        CHECK(part->targets().scale == 1);
        CHECK(part->classes() == 10);
        CHECK(part->class_names()[9] == "truck");
    }
    std::size_t i = 0;
    for (std::size_t k = 0; k < 5; ++k)
        for (std::size_t r = 0; r <= k; ++r, ++i) {
            CAPTURE(i);
            auto const label = (k + r) % 10;
            CHECK(byte_of(data.train.targets(), i) == label);
            CHECK(byte_of(data.train.inputs(), i) == label);
            CHECK(byte_of(data.train.inputs(), i, 3071) == static_cast<std::uint8_t>(label + 3071));
        }
    CHECK(byte_of(data.test.targets(), 0) == 5);
    CHECK(byte_of(data.test.inputs(), 5, 1) == 1);
}

} // namespace

TEST_SUITE("data/cifar") {
    TEST_CASE("five files to learn from, one to be judged by") {
        files::folder const folder;
        files::environment const none(variable, nullptr);
        write_set(folder.path());
        check_set(cifar10::load(folder.path()));
        check_set(cifar10::load(folder.path() + "/"));
        owned_samples part;
        { part = cifar10::load(folder.path()).train.take(1, 2); }
        CHECK(byte_of(part.targets(), 1) == 2); // its memory is still there
        auto const copied = copy_of(part, std::vector<std::uint32_t>{1});
        CHECK(copied.inputs().stride == 3072);
        CHECK(byte_of(copied.inputs(), 0, 5) == 7);
    }

    TEST_CASE("the folder of the archive, and the one in the environment") {
        files::folder const folder, empty;
        std::filesystem::create_directory(folder.path("cifar-10-batches-bin"));
        write_set(folder.path("cifar-10-batches-bin"));
        check_set(cifar10::load(folder.path()));
        files::environment const set(variable, folder.path().c_str());
        check_set(cifar10::load());
        CHECK_THROWS_AS(cifar10::load(empty.path()), data_error); // the argument goes before
    }

    TEST_CASE("what is missing is named, and where it is to be had") {
        files::folder const folder;
        auto const load = [](std::string const& directory) { return [directory] { cifar10::load(directory); }; };
        auto const nowhere = folder.path("none");
        for (auto const* words : {"https://www.cs.toronto.edu/~kriz/cifar.html", "cifar-10-binary.tar.gz", "--data DIR",
                                  "TRIREME_CIFAR10", "is not there or is no folder"})
            files::expect_data_error(load(nowhere), nowhere, 0, words);
        for (auto const* value : {static_cast<char const*>(nullptr), ""}) {
            files::environment const none(variable, value);
            files::expect_data_error(load({}), "CIFAR-10", 0, "nobody has said where the files are: fetch");
        }
        CHECK_THROWS_AS(cifar10::load(std::string("a\0b", 3)), usage_error);
        auto const file = folder.write("file", {1});
        files::expect_data_error(load(file), file, 0, "is no folder");
        for (auto const* name : names) {
            write_set(folder.path());
            auto const path = folder.path() + "/" + name;
            std::filesystem::remove(path);
            files::expect_data_error(load(folder.path()), path, 0, "no such file: fetch cifar-10-binary.tar.gz");
        }
    }

    TEST_CASE("labels and sizes are checked, and the record named") {
        files::folder const folder;
        auto const load = [&] { cifar10::load(folder.path()); };
        write_set(folder.path());
        auto const third = folder.path() + "/data_batch_3.bin";
        for (unsigned const label : {10u, 255u}) {
            auto bad = records(3, 2);
            bad[2 * 3073] = static_cast<std::uint8_t>(label);
            folder.write("data_batch_3.bin", bad);
            files::expect_data_error(load, third, 2 * 3073, "the label of record 2 is " + std::to_string(label));
            files::expect_data_error(load, third, 2 * 3073, "[0, 10)");
        }
        write_set(folder.path());
        auto const test = folder.path() + "/test_batch.bin";
        for (std::size_t const size : {1u, 3072u, 3074u, 6u * 3073 - 1, 6u * 3073 + 1}) {
            auto content = records(7, 0);
            content.resize(size);
            folder.write("test_batch.bin", content);
            files::expect_data_error(load, test, size / 3073 * 3073, "not a whole number of them");
        }
        folder.write("test_batch.bin", {});
        files::expect_data_error(load, test, 0, "which are none");
        std::filesystem::remove(test);
        std::filesystem::create_directory(test);
        files::expect_data_error(load, test, 0, "this is a folder");
    }

    TEST_CASE("a size that is refused takes no memory") {
        files::folder const folder;
        write_set(folder.path());
        auto const fifth = folder.path() + "/data_batch_5.bin";
        std::filesystem::resize_file(fifth, std::uint64_t{1} << 40); // takes no disk
        auto const before = files::address_space_peak();
        files::expect_data_error([&] { cifar10::load(folder.path()); }, fifth, (std::uint64_t{1} << 40) / 3073 * 3073,
                                 "not a whole number");
        CHECK(files::address_space_peak() - before < std::uint64_t{64} << 20);
    }

    TEST_CASE("damaged files are refused or read, and nothing else") {
        files::folder const folder;
        auto const whole = records(2, 0);
        using namespace std::string_view_literals;
        int read = 0;
        auto const refused =
            files::refused_when_damaged(300, whole, "\0\1\x09\x0A\xFF"sv, [&](std::string const& path) {
                auto const slash = path.rfind('/');
                auto const s = cifar10::detail::read_records(path.substr(0, slash), {path.substr(slash + 1)});
                CHECK(s.size() * 3073 == std::filesystem::file_size(path));
                for (std::size_t i = 0; i < s.size(); ++i) CHECK(byte_of(s.targets(), i) < 10);
                (void)byte_of(s.inputs(), s.size() - 1, 3071);
                ++read;
            });
        CHECK(refused + read == 300);
        CHECK(refused > 100);
        CHECK(read > 3);
    }
}

} // namespace data_cifar_test
