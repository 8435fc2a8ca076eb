// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/data/sample_source.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

namespace detail {

// A label is one byte, so that more than 256 classes cannot be told apart.
inline void check_classes(std::size_t classes) {
    if (classes == 0 || classes > 256) {
        throw usage_error("a set of labelled images has 1 to 256 classes, not " + std::to_string(classes) +
                          "; pass the number of different labels");
    }
}

} // namespace detail

/// Grey images of one size, one byte per value, each with a label in [0, classes). The content never changes. Networks
/// see a byte divided by 255.
///
/// A value like a pointer: copies and parts share one storage, which lives as long as any of them.
class labelled_images {
public:
    /// No images at all.
    labelled_images() = default;

    /// `pixels` is [image][row][column], `labels` is [image].
    /// Errors: usage_error if the sizes do not fit together, there is no image, or a label is not below `classes`.
    TRIREME_COLD labelled_images(std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels, std::size_t height,
                                 std::size_t width, std::size_t classes)
        : height_(height), width_(width), classes_(classes), size_(labels.size()) {
        detail::check_classes(classes);
        if (labels.empty()) throw usage_error("a set of labelled images needs at least one label; none was passed");
        // Divided, not multiplied: size * height * width may pass 2^64.
        if (height == 0 || width == 0 || pixels.size() % labels.size() != 0 ||
            pixels.size() / labels.size() % height != 0 || pixels.size() / labels.size() / height != width) {
            throw usage_error(std::to_string(labels.size()) + " labels and images of " + std::to_string(height) +
                              " x " + std::to_string(width) + " do not fit " + std::to_string(pixels.size()) +
                              " bytes of pixels; pass labels x height x width bytes, none of the three 0");
        }
        for (std::size_t i = 0; i < labels.size(); ++i) {
            if (labels[i] >= classes) {
                throw usage_error("label " + std::to_string(i) + " is " + std::to_string(labels[i]) +
                                  ", and labels lie in [0, " + std::to_string(classes) +
                                  "); correct it or pass more classes");
            }
        }
        storage_ = std::make_shared<storage const>(storage{std::move(pixels), std::move(labels)});
    }

    std::size_t size() const noexcept { return size_; }
    std::size_t channels() const noexcept { return 1; }
    std::size_t height() const noexcept { return height_; }
    std::size_t width() const noexcept { return width_; }
    std::size_t classes() const noexcept { return classes_; }
    std::size_t values_per_image() const noexcept { return channels() * height_ * width_; }

    /// Image `i` < size() as [channel][row][column]. Valid as long as any copy or part of this set.
    std::span<std::uint8_t const> image(std::size_t i) const noexcept {
        return {storage_->pixels.data() + (first_ + i) * values_per_image(), values_per_image()};
    }

    /// The label of image `i` < size().
    std::uint8_t label(std::size_t i) const noexcept { return storage_->labels[first_ + i]; }

    /// All values, [image][channel][row][column], and all labels. Valid as long as any copy or part of this set.
    std::span<std::uint8_t const> pixels() const noexcept {
        if (size_ == 0) return {};
        return {image(0).data(), size_ * values_per_image()};
    }
    std::span<std::uint8_t const> labels() const noexcept {
        if (size_ == 0) return {};
        return {storage_->labels.data() + first_, size_};
    }

    // The functions below make the type a sample_source.
    sample_rows inputs() const noexcept {
        auto rows = rows_of(pixels().data(), make_shape(channels(), height_, width_));
        rows.scale = 1.0 / 255;
        return rows;
    }
    sample_rows targets() const noexcept {
        auto rows = rows_of(labels().data(), make_shape(1));
        rows.classes = classes_;
        return rows;
    }
    std::shared_ptr<void const> holder() const noexcept { return storage_; }

    /// True if these are the very same images as `other`; compares no pixel.
    bool same_storage(labelled_images const& other) const noexcept {
        return storage_ == other.storage_ && first_ == other.first_ && size_ == other.size_;
    }

    /// The `count` images from `first` on, sharing this storage.
    /// Errors: usage_error if they are not all in the set.
    labelled_images take(std::size_t first, std::size_t count) const {
        if (first > size_ || count > size_ - first) {
            throw usage_error("images " + std::to_string(first) + " and the " + std::to_string(count) +
                              " from there on are not all in this set of " + std::to_string(size_) +
                              "; take fewer, or from further ahead");
        }
        auto part = *this;
        part.first_ += first;
        part.size_ = count;
        return part;
    }

private:
    struct storage {
        std::vector<std::uint8_t> pixels, labels;
    };

    std::shared_ptr<storage const> storage_;
    std::size_t height_ = 0;
    std::size_t width_ = 0;
    std::size_t classes_ = 0;
    std::size_t first_ = 0;
    std::size_t size_ = 0;
};

/// A data set: images that a network learns from, and images that test it.
struct dataset {
    labelled_images train, test; ///< images that a network learns from, and images that test it
};

} // namespace trireme
