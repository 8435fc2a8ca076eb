// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/accelerator.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace trireme {

namespace blocks {

/// The device's clock, in nanoseconds since some time.
struct time_stamp {
    std::uint64_t* to;
    TRIREME_HOST_DEVICE void operator()(std::size_t) const {
#if defined(__CUDA_ARCH__)
        std::uint64_t now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        *to = now;
#else
        *to = static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
                .count());
#endif
    }
};

} // namespace blocks

/// Hands over the writing of the time at which a stream gets here, in nanoseconds, to memory that the device reaches:
/// the host's pinned memory, too. It may be part of a graph. Each GPU has a clock of its own.
template<class Stream>
void stamp_time(Stream& stream, std::uint64_t* to) {
    stream.launch(index_program<blocks::time_stamp>{{to}, 1}, 1);
}

} // namespace trireme
