// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/path.hpp>
#include <trireme/core/regular_file.hpp>
#include <trireme/data/samples.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

/// CIFAR-10: colour photographs, 3 x 32 x 32 bytes, 10 classes; 50,000 to learn from and 10,000 to be judged by.
/// Source: Krizhevsky, "Learning multiple layers of features from tiny images", 2009; the binary version: records of a
/// byte, the class, and 3072 bytes, the red, the green and the blue pixels, row by row.
namespace trireme::cifar10 {

inline constexpr std::size_t classes = 10;
inline constexpr char const* class_names[classes] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                     "dog",      "frog",       "horse", "ship", "truck"};

namespace detail {

using trireme::detail::regular_file;

inline constexpr std::size_t of_record = 1 + 3 * 32 * 32;
inline constexpr char const* remedy =
    "fetch cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html, unpack it, and pass the folder of "
    "its files (--data DIR in the examples), or name it in TRIREME_CIFAR10";

inline bool is_folder(std::string const& path) {
    struct ::stat about = {};
    return ::stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

TRIREME_COLD inline std::string choose_directory(std::string directory) {
    if (directory.empty()) {
        auto const* variable = std::getenv("TRIREME_CIFAR10");
        if (variable == nullptr || *variable == '\0')
            throw data_error("CIFAR-10", std::string("nobody has said where the files are: ") + remedy);
        directory = variable;
    }
    if (!is_folder(checked_path(directory)))
        throw data_error(directory, std::string("the folder is not there or is no folder: ") + remedy);
    auto const unpacked = directory + "/cifar-10-batches-bin"; // as the archive names it
    return is_folder(unpacked) ? unpacked : directory;
}

/// Reads files of records, one behind the other. Sizes are checked before memory is taken, labels before they are used.
TRIREME_COLD inline owned_samples read_records(std::string const& directory, std::vector<std::string> const& names) {
    std::deque<regular_file> files;
    std::size_t bytes = 0;
    for (auto const& name : names) {
        auto const path = directory + "/" + name;
        struct ::stat about = {};
        if (::stat(path.c_str(), &about) != 0) throw data_error(path, std::string("there is no such file: ") + remedy);
        auto const size = files.emplace_back(path).size();
        if (size == 0 || size % of_record != 0)
            files.back().fail(size / of_record * of_record, "records of CIFAR-10 have " + std::to_string(of_record) +
                                                                " bytes, and the file has " + std::to_string(size) +
                                                                ", which are " +
                                                                (size == 0 ? "none" : "not a whole number of them") +
                                                                "; it is truncated or of another version: " + remedy);
        bytes += static_cast<std::size_t>(size);
    }
    auto const content = std::make_shared<std::vector<std::uint8_t>>(bytes);
    std::size_t at = 0;
    for (auto const& file : files) {
        auto const size = static_cast<std::size_t>(file.size());
        file.read(0, std::as_writable_bytes(std::span(*content).subspan(at, size)));
        for (std::size_t i = 0; i < size; i += of_record)
            if (auto const label = (*content)[at + i]; label >= classes)
                file.fail(i, "the label of record " + std::to_string(i / of_record) + " is " + std::to_string(label) +
                                 ", and labels lie in [0, 10); the file is damaged or of another version, as that of "
                                 "CIFAR-100: " +
                                 remedy);
        at += size;
    }
    auto inputs = rows_of(content->data() + 1, make_shape(3, 32, 32)),
         targets = rows_of(content->data(), make_shape(1));
    inputs.stride = targets.stride = of_record; // they stay where they were read
    inputs.scale = 1.0 / 255;
    targets.classes = classes;
    return {content, bytes / of_record, inputs, targets, {std::begin(class_names), std::end(class_names)}};
}

} // namespace detail

/// Reads data_batch_1.bin to data_batch_5.bin and test_batch.bin from `directory`, or from cifar-10-batches-bin in it;
/// if it is empty, from the folder in the environment variable TRIREME_CIFAR10.
/// Errors: data_error, with the path and where the files are to be had.
/// Cost: 184 MB of memory.
TRIREME_COLD inline training_set<owned_samples> load(std::string directory = {}) {
    directory = detail::choose_directory(std::move(directory));
    return {detail::read_records(directory, {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                             "data_batch_4.bin", "data_batch_5.bin"}),
            detail::read_records(directory, {"test_batch.bin"})};
}

} // namespace trireme::cifar10
