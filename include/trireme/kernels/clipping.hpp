// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/isa.hpp>

#include <limits>

namespace trireme::detail {
inline constexpr double largest_norm = std::numeric_limits<double>::max(); // a call that device code may not make
}

namespace trireme::inline TRIREME_ISA {

/// The factor of gradients whose norm is to be at most `most`. Without a limit (infinity) it is 1, whatever the norm;
/// else a factor that is NaN stays NaN. Source: PyTorch's clip_grad_norm_.
TRIREME_HOST_DEVICE constexpr double clipping_factor(double norm, double most) noexcept {
    if (most > detail::largest_norm) return 1; // infinity / infinity would be no number
    double const factor = most / (norm + 1e-6);
    return factor >= 1 ? 1 : factor;
}

} // namespace trireme::inline TRIREME_ISA
