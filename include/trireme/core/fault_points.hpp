// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>

namespace trireme {

/// Places in a step where a test may make a device fail.
enum class fault_point : std::uint8_t {
    forward,
    backward,
    reduce,
    update,
    task ///< the beginning of each task of a rank's step program; only devices of the host have it
};

/// The default: nothing, and no code.
struct no_faults {
    static constexpr void at(fault_point, int /*device*/, std::uint64_t /*step*/) noexcept {}
};

} // namespace trireme
