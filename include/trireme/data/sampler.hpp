// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/philox.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// The order in which an epoch visits the samples [0, n), cut into batches. It begins sequential.
///
/// The shuffled order is a pure function of (n, seed, epoch), so that every device can make it alone and a resumed run
/// continues with the order it would have had.
/// Memory: 4 n bytes, allocated once.
class epoch_order {
public:
    /// Errors: usage_error if n is above 2^32 - 1.
    epoch_order(std::size_t n, std::uint64_t seed) : seed_(seed), order_(checked(n)) { sequential(); }

    std::size_t size() const noexcept { return order_.size(); }

    /// 0, 1, 2, ...: for evaluation.
    void sequential() noexcept { std::iota(order_.begin(), order_.end(), std::uint32_t{0}); }

    /// Shuffles for `epoch`. Fisher-Yates from the sequential order; cost: n Philox blocks.
    void shuffle(std::uint32_t epoch) noexcept {
        sequential();
        random_stream const random(seed_, random_purpose::sample_order, epoch);
        for (auto left = order_.size(); left > 1; --left) {
            std::swap(order_[left - 1], order_[random.below(left, static_cast<std::uint32_t>(left))]);
        }
    }

    /// The number of batches in an epoch; the last one may be short.
    /// Errors: usage_error if `batch_size` is 0.
    std::size_t batches(std::size_t batch_size) const {
        if (batch_size == 0) throw usage_error("a batch of 0 samples never ends an epoch; pass a batch of at least 1");
        return order_.size() / batch_size + (order_.size() % batch_size != 0 ? 1 : 0);
    }

    /// The samples of batch `k`; valid until the next shuffle() or sequential().
    /// Errors: usage_error if `batch_size` is 0 or `k` is not below batches(batch_size).
    std::span<std::uint32_t const> batch(std::size_t k, std::size_t batch_size) const {
        if (auto const count = batches(batch_size); k >= count) {
            throw usage_error("batch " + std::to_string(k) + " was asked for, and this epoch has " +
                              std::to_string(count) + "; count from 0 and stop before batches()");
        }
        auto const first = k * batch_size;
        return {order_.data() + first, std::min(batch_size, order_.size() - first)};
    }

private:
    static std::size_t checked(std::size_t n) {
        if (n > std::numeric_limits<std::uint32_t>::max()) {
            throw usage_error(std::to_string(n) + " samples do not fit the 32-bit indices of an epoch; split the data");
        }
        return n;
    }

    std::uint64_t seed_;
    std::vector<std::uint32_t> order_;
};

} // namespace trireme
