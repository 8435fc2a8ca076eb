// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// y = a + b; y may be a or b.
template<class T>
TRIREME_NOINLINE void add_values(portable, T const* a, T const* b, T* y, std::size_t n) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for_registers<vector>(n, [&](std::size_t i, auto count) {
        (vector::load(a + i, count) + vector::load(b + i, count)).store(y + i, count);
    });
}

} // namespace trireme::inline TRIREME_ISA
