// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/data/dataset.hpp>
#include <trireme/data/gzip.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

// IDX: a magic number (two zero bytes, element type, number of dimensions), the dimensions, then the elements, the last
// dimension running fastest. All numbers have 32 bits and are big-endian.
// Source: LeCun, Cortes, Burges, "The MNIST database of handwritten digits".

/// Height and width that a reader insists on; 0 for any.
struct image_size {
    std::size_t height = 0; ///< pixels of a column; 0: any
    std::size_t width = 0;  ///< pixels of a row; 0: any
};

/// The content of an IDX file of images; `pixels` is [image][row][column].
struct idx_images {
    std::size_t count = 0;            ///< images in the file
    std::size_t height = 0;           ///< pixels of a column
    std::size_t width = 0;            ///< pixels of a row
    std::vector<std::uint8_t> pixels; ///< grey values, [image][row][column]
};

namespace detail {

inline constexpr std::uint32_t idx_magic_images = 0x00000803; // unsigned bytes in 3 dimensions
inline constexpr std::uint32_t idx_magic_labels = 0x00000801; // unsigned bytes in 1 dimension

inline std::uint32_t read_idx_word(gzip_file& file) {
    std::uint8_t bytes[4] = {};
    file.read(bytes, "the IDX header");
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

inline std::string idx_hex(std::uint32_t word) {
    std::string text = "0x00000000";
    for (std::size_t i = 0; i < 8; ++i) text[9 - i] = "0123456789abcdef"[word >> 4 * i & 15];
    return text;
}

TRIREME_COLD inline void expect_idx_magic(gzip_file& file, std::uint32_t wanted) {
    auto const magic = read_idx_word(file);
    if (magic == wanted) return;
    auto const images = wanted == idx_magic_images;
    auto const swapped = magic == (images ? idx_magic_labels : idx_magic_images);
    throw data_error(file.path(), 0,
                     std::string("an IDX file of ") + (images ? "images" : "labels") + " begins with " +
                         idx_hex(wanted) + ", and this one with " + idx_hex(magic) +
                         (swapped ? ", which is the other kind: swap the files of images and labels"
                                  : "; pass an IDX file of unsigned bytes, plain or gzip"));
}

/// A dimension of the header: never 0, and `wanted` unless that is 0.
TRIREME_COLD inline std::uint32_t read_idx_extent(gzip_file& file, char const* thing, std::size_t wanted = 0) {
    auto const at = file.offset();
    auto const extent = read_idx_word(file);
    if (extent == 0) {
        throw data_error(file.path(), at,
                         std::string("the number of ") + thing + " is 0, and must be at least 1: fetch the file again");
    }
    if (wanted != 0 && extent != wanted) {
        throw data_error(file.path(), at,
                         std::string("the number of ") + thing + " is " + std::to_string(extent) + ", and must be " +
                             std::to_string(wanted) + " here: pass the files of this data set");
    }
    return extent;
}

} // namespace detail

/// Reads an IDX file of images, plain or gzip, and insists on `wanted` where that is not 0.
/// Errors: data_error with the byte, counted in the decoded stream.
/// Memory: the pixels and what gzip_file::read says; a header cannot make it allocate more than the file can hold.
TRIREME_COLD inline idx_images read_idx_images(std::string const& path, image_size wanted = {}) {
    gzip_file file(path);
    detail::expect_idx_magic(file, detail::idx_magic_images);
    auto const count = detail::read_idx_extent(file, "images");
    auto const height = detail::read_idx_extent(file, "rows", wanted.height);
    auto const width = detail::read_idx_extent(file, "columns", wanted.width);
    auto const values = std::uint64_t{height} * width;
    // count * values may pass 2^64: divide instead.
    if (values > file.most_left() / count) {
        throw data_error(path, file.offset(),
                         std::to_string(count) + " images of " + std::to_string(height) + " x " +
                             std::to_string(width) + " are promised, but in this file of " +
                             std::to_string(file.size()) + " bytes at most " + std::to_string(file.most_left()) +
                             " bytes of pixels can follow; it is truncated or its header is wrong: fetch it again");
    }
    idx_images images{count, height, width, file.read(count * values, "the pixels")};
    file.expect_end("the pixels");
    return images;
}

/// Reads an IDX file of labels in [0, classes), plain or gzip, and insists on `count` of them unless that is 0.
/// Errors: data_error with the byte, and the index of the first label that is out of range; usage_error for `classes`.
TRIREME_COLD inline std::vector<std::uint8_t> read_idx_labels(std::string const& path, std::size_t classes,
                                                              std::size_t count = 0) {
    detail::check_classes(classes);
    gzip_file file(path);
    detail::expect_idx_magic(file, detail::idx_magic_labels);
    auto const found = detail::read_idx_extent(file, "labels");
    auto const start = file.offset();
    if (count != 0 && found != count) {
        throw data_error(path, 4,
                         "there are " + std::to_string(found) + " labels for " + std::to_string(count) +
                             " images, and each image needs one: pass two files that belong together");
    }
    auto labels = file.read(std::uint64_t{found}, "the labels");
    file.expect_end("the labels");
    for (std::size_t i = 0; i < labels.size(); ++i) {
        if (labels[i] >= classes) {
            throw data_error(path, start + i,
                             "label " + std::to_string(i) + " is " + std::to_string(labels[i]) +
                                 ", and labels lie in [0, " + std::to_string(classes) +
                                 "): fetch the file again, or pass the right number of classes");
        }
    }
    return labels;
}

/// Reads a file of images and the file of their labels.
inline labelled_images read_idx(std::string const& images, std::string const& labels, std::size_t classes,
                                image_size wanted = {}) {
    detail::check_classes(classes);
    auto content = read_idx_images(images, wanted);
    auto names = read_idx_labels(labels, classes, content.count);
    return {std::move(content.pixels), std::move(names), content.height, content.width, classes};
}

} // namespace trireme
