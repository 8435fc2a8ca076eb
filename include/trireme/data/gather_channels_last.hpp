// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/data/dataset.hpp>
#include <trireme/device/host/isa.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme::inline TRIREME_ISA {

/// One sample for kernels that take images channels last: out[p * Channels + c] = scale * value p of channel c of image
/// `index`. Lists have one channel.
template<std::size_t Channels, class T, class Stored>
TRIREME_NOINLINE void gather_channels_last(labelled_images const& images, std::size_t index, T scale,
                                           Stored* TRIREME_RESTRICT out) noexcept {
    std::uint8_t const* const from = images.image(index).data();
    auto const positions = images.values_per_image() / Channels;
    for (std::size_t c = 0; c < Channels; ++c)
        for (std::size_t p = 0; p < positions; ++p)
            out[p * Channels + c] = static_cast<Stored>(static_cast<T>(from[c * positions + p]) * scale);
}

} // namespace trireme::inline TRIREME_ISA
