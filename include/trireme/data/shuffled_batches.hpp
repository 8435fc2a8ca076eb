// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/data/sample_source.hpp>
#include <trireme/data/sampler.hpp>
#include <trireme/data/samples.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace trireme {

/// Batches of one size without end, for trainings that count steps: the samples of epoch after epoch, in the orders of
/// `fit`. A batch may have the end of an epoch and the begin of the next. Batch k follows from the samples, the size,
/// the seed and k alone, so that a training which is resumed goes on with the batches that it would have had.
///
///     shuffled_batches batches(text_windows(text, 128), 16, seed);
///     while (t.steps() < 2000) t.step(batches.at(t.steps()));
///
/// Memory: 4 bytes per sample, and those of a batch, which `at` copies. Cost: a new epoch shuffles its order.
class shuffled_batches {
public:
    /// Errors: usage_error if there are no samples, more than 2^32 - 1, or the size is 0.
    TRIREME_COLD shuffled_batches(sample_set samples, std::size_t size, std::uint64_t seed)
        : samples_(std::move(samples)), size_(size), seed_(seed), order_(samples_.size(), seed) {
        if (samples_.size() == 0 || size == 0)
            throw usage_error("batches of " + std::to_string(size) + " of " + std::to_string(samples_.size()) +
                              " samples: both must be at least 1");
        begin(0);
    }

    std::size_t size() const noexcept { return size_; } ///< samples of a batch
    /// The epoch that batch `k` begins in.
    std::uint64_t epoch_of(std::uint64_t k) const noexcept { return k * size_ / samples_.size(); }

    /// Batch `k`, a copy.
    owned_samples at(std::uint64_t k) {
        struct place {
            std::byte const *input, *target;
        };
        std::vector<place> from(size_);
        for (std::size_t i = 0; i < size_; ++i) {
            auto const number = k * size_ + i;
            begin(static_cast<std::uint32_t>(number / samples_.size()));
            auto const sample = order_.batch(number % samples_.size(), 1)[0];
            from[i] = {of_epoch_.inputs().of(sample), of_epoch_.targets().of(sample)};
        }
        auto batch = std::make_shared<storage>();
        auto inputs = samples_.inputs(), targets = samples_.targets();
        batch->inputs = detail::packed_rows(inputs, size_, [&](std::size_t i) { return from[i].input; });
        batch->targets = detail::packed_rows(targets, size_, [&](std::size_t i) { return from[i].target; });
        return {std::move(batch), size_, inputs, targets};
    }

private:
    struct storage {
        std::vector<std::byte> inputs, targets;
    };

    void begin(std::uint32_t epoch) {
        if (epoch == epoch_ && of_epoch_.size() != 0) return;
        epoch_ = epoch;
        order_.shuffle(epoch);
        of_epoch_ = samples_.of_epoch(seed_, epoch);
    }

    sample_set samples_, of_epoch_;
    std::size_t size_;
    std::uint64_t seed_;
    epoch_order order_;
    std::uint32_t epoch_ = 0;
};

} // namespace trireme
