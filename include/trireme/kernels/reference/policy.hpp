// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/isa.hpp>
#include <trireme/kernels/kernel_context.hpp>

namespace trireme::inline TRIREME_ISA {

/// The oracle: the textbook loops, one sample at a time in the order of the formulas. Slow; for tests and for reading.
struct reference : kernel_context {
    static constexpr char const* name = "reference";
};

} // namespace trireme::inline TRIREME_ISA
