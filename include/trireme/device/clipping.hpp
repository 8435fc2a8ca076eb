// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>

namespace trireme {

/// The factor of gradients whose norm is to be at most `most`. A factor that is NaN stays NaN.
/// Source: PyTorch's clip_grad_norm_.
TRIREME_HOST_DEVICE constexpr double clipping_factor(double norm, double most) noexcept {
    double const factor = most / (norm + 1e-6);
    return factor >= 1 ? 1 : factor;
}

} // namespace trireme
