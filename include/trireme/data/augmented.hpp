// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/core/philox.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/data/standardised_numbers.hpp>
#include <trireme/device/host/isa.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace trireme {

/// Samples of any source whose images are changed in every step of a training: parts of the image with zeros around it,
/// its mirror image. Which change an image meets follows from the trainer's seed, the step and the image's number in
/// the set, never from a device, so that bits are the same on any number of them. Nothing is copied. Cost: images that
/// are changed are gathered value by value.
///
///     auto const data = cifar10::load(folder);
///     t.train(training_set{augmented(data.train, {.crop_padding = 4, .flip = true}), data.test}, {.epochs = 10});
class augmented_samples {
public:
    /// Errors: usage_error if the samples are no images of (channels, height, width).
    TRIREME_COLD augmented_samples(sample_set samples, image_changes const& changes)
        : samples_(std::move(samples)), changes_(changes) {
        if (samples_.inputs().data != nullptr) detail::check_image(samples_.inputs().shape);
    }

    std::size_t size() const noexcept { return samples_.size(); }
    sample_rows inputs() const noexcept {
        auto rows = samples_.inputs();
        rows.changes = changes_;
        return rows;
    }
    sample_rows targets() const noexcept { return samples_.targets(); }
    std::shared_ptr<void const> holder() const noexcept { return samples_.holder(); }

private:
    sample_set samples_;
    image_changes changes_;
};

/// Samples with changes of their images, for training; see augmented_samples.
inline augmented_samples augmented(sample_set samples, image_changes const& changes) {
    return {std::move(samples), changes};
}

namespace detail {

/// The step that changes are drawn for: counted from 1; 0 stands for none.
struct drawn_changes {
    std::uint64_t seed = 0, step = 0;
};

/// The change that an image meets in a step.
class image_change {
public:
    image_change(sample_rows const& rows, drawn_changes const& drawn, std::uint32_t sample) noexcept
        : height_(rows.shape.extent[1]), width_(rows.shape.extent[2]) {
        random_stream const random(drawn.seed, random_purpose::image_changes, static_cast<std::uint32_t>(drawn.step),
                                   sample);
        auto const padding = static_cast<std::ptrdiff_t>(rows.changes.crop_padding);
        auto const places = static_cast<std::uint32_t>(2 * padding + 1);
        down_ = static_cast<std::ptrdiff_t>(random.below(0, places)) - padding;
        right_ = static_cast<std::ptrdiff_t>(random.below(1, places)) - padding;
        flipped_ = rows.changes.flip && random.below(2, 2) != 0;
    }

    /// to(p, q) for each place p of a channel, and the place q of the image that comes there; npos for a zero.
    template<class To>
    void for_places(To&& to) const {
        for (std::size_t y = 0; y < height_; ++y) {
            auto const row = static_cast<std::ptrdiff_t>(y) + down_;
            bool const inside = row >= 0 && row < static_cast<std::ptrdiff_t>(height_);
            for (std::size_t x = 0; x < width_; ++x) {
                auto const column = static_cast<std::ptrdiff_t>(flipped_ ? width_ - 1 - x : x) + right_;
                bool const there = inside && column >= 0 && column < static_cast<std::ptrdiff_t>(width_);
                to(y * width_ + x, there ? static_cast<std::size_t>(row) * width_ + static_cast<std::size_t>(column)
                                         : static_cast<std::size_t>(-1));
            }
        }
    }

private:
    std::size_t height_, width_;
    std::ptrdiff_t down_ = 0, right_ = 0;
    bool flipped_ = false;
};

} // namespace detail
} // namespace trireme

namespace trireme::detail::inline TRIREME_ISA {

/// to[c * channel + p * place] = scale * the changed image's number at place p of channel c.
template<class T, class Stored>
TRIREME_NOINLINE void scatter_changed(sample_rows const& rows, std::uint32_t sample, drawn_changes const& drawn,
                                      T scale, Stored* to, std::size_t channel, std::size_t place) noexcept {
    image_change const change(rows, drawn, sample);
    auto const places = rows.shape.extent[1] * rows.shape.extent[2];
    auto const scatter = [&](auto&& from, T factor) {
        for (std::size_t c = 0; c < rows.shape.extent[0]; ++c) {
            change.for_places([&](std::size_t p, std::size_t q) {
                to[c * channel + p * place] = q == static_cast<std::size_t>(-1)
                                                  ? Stored{}
                                                  : static_cast<Stored>(static_cast<T>(from[c * places + q]) * factor);
            });
        }
    };
    if (rows.standard != nullptr)
        return scatter(standardised_numbers(rows, sample), static_cast<T>(rows.standard->after));
    with_number_of(rows.kind, [&]<class N>(N) { scatter(reinterpret_cast<N const*>(rows.of(sample)), scale); });
}

} // namespace trireme::detail::inline TRIREME_ISA
