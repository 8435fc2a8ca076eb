// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/path.hpp>
#include <trireme/data/dataset.hpp>
#include <trireme/data/idx.hpp>

#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <utility>

#include <sys/stat.h>

/// Fashion-MNIST: pictures of clothes, 28 x 28 bytes, 10 classes; 60,000 to learn from and 10,000 to be judged by.
/// Source: Xiao, Rasul, Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms",
/// 2017. Debian and Ubuntu have it as the package dataset-fashion-mnist.
namespace trireme::fashion_mnist {

inline constexpr std::size_t classes = 10;

namespace detail {

inline constexpr image_size wanted = {28, 28};
inline constexpr char const* remedy = "apt-get install dataset-fashion-mnist, or pass the folder that holds the four "
                                      "files (--data DIR in the examples), or name it in TRIREME_FASHION_MNIST";

inline bool exists(std::string const& path) {
    struct ::stat about = {};
    return ::stat(path.c_str(), &about) == 0;
}

TRIREME_COLD inline std::string choose_directory(std::string directory) {
    auto const* from = "the folder that was passed";
    if (directory.empty()) {
        auto const* variable = std::getenv("TRIREME_FASHION_MNIST");
        if (variable != nullptr && *variable != '\0') {
            directory = variable;
            from = "the folder in TRIREME_FASHION_MNIST";
        } else {
            directory = "/usr/share/datasets/fashion-mnist";
            from = "the folder of Debian's package dataset-fashion-mnist";
        }
    }
    struct ::stat about = {};
    if (::stat(checked_path(directory).c_str(), &about) != 0 || !S_ISDIR(about.st_mode)) {
        throw data_error(directory, std::string(from) + " is not there or is no folder: " + remedy);
    }
    return directory;
}

/// The file whose name is `stem` and `kind`, joined by '-' or '.', with or without ".gz": copies of it use all four.
TRIREME_COLD inline std::string find_file(std::string const& directory, std::string const& stem,
                                          std::string const& kind) {
    for (auto const* joint : {"-", "."}) {
        for (auto const* ending : {"", ".gz"}) {
            auto const path = directory + "/" + stem + joint + kind + ending;
            if (exists(path)) return path;
        }
    }
    throw data_error(directory + "/" + stem + "-" + kind + ".gz",
                     "there is no such file, nor one without .gz or with '." + kind + "': " + remedy);
}

TRIREME_COLD inline labelled_images load_part(std::string const& directory, std::string const& part) {
    return read_idx(find_file(directory, part + "-images", "idx3-ubyte"),
                    find_file(directory, part + "-labels", "idx1-ubyte"), classes, wanted);
}

} // namespace detail

/// Reads both parts from `directory`; if that is empty, from the folder in the environment variable
/// TRIREME_FASHION_MNIST; if that is not set, from where Debian's package puts it.
/// Errors: data_error, with the path and the remedy.
/// Cost: 55 MB of memory, under a second from gzip.
TRIREME_COLD inline dataset load(std::string directory = {}) {
    directory = detail::choose_directory(std::move(directory));
    return {detail::load_part(directory, "train"), detail::load_part(directory, "t10k")};
}

} // namespace trireme::fashion_mnist
