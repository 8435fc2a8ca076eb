// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/philox.hpp>
#include <trireme/kernels/granule_place.hpp>

#include <cstdint>

namespace trireme {

/// The arguments that dropout's kernels take, forward and backward alike: value i of the shard's n-th sample of Size
/// values is dropped if number n * Size + i of the layer's random bits is below `threshold`, and else times `scale`.
/// Values of images are numbered channel by channel, however they lie.
template<class T>
struct dropout_draw {
    granule_place granule = {}; ///< kernels that read the step's numbers where they are staged do not look at it
    std::uint32_t layer = 0;
    std::uint32_t threshold = 0;
    T scale = 1;
    std::uint32_t last_channels = 1; ///< of values that lie channels last, where kernels do not know it otherwise

    /// The factor of the value with this number.
    T factor(std::uint64_t number) const noexcept { return random().bits(number) >= threshold ? scale : T(0); }

    random_stream random() const noexcept {
        return {granule.seed, random_purpose::dropout, static_cast<std::uint32_t>(granule.step), layer,
                static_cast<std::uint16_t>(granule.shard)};
    }
};

} // namespace trireme
