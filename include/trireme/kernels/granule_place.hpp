// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme {

/// The samples of a granule by their numbers, beside their values. Lanes from `count` on repeat its last sample and
/// must not count.
struct granule_place {
    std::uint64_t seed = 0;
    std::uint64_t step = 0;
    std::uint32_t shard = 0; ///< logical, the same for any number of devices
    std::size_t first = 0;   ///< number of its first sample in the shard
    std::size_t count = 0;   ///< of its samples
    std::size_t samples = 0; ///< of the whole shard
    std::size_t batch = 0;   ///< of all shards

    /// The shard's part of the batch.
    double share() const noexcept { return static_cast<double>(samples) / static_cast<double>(batch); }
};

} // namespace trireme
