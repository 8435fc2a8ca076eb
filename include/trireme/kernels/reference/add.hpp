// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/reference/policy.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// y = a + b; y may be a or b.
template<class T>
void add_values(reference, T const* a, T const* b, T* y, std::size_t n) noexcept {
    for (std::size_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

} // namespace trireme::inline TRIREME_ISA
