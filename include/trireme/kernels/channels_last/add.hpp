// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/stored_numbers.hpp>
#include <trireme/kernels/channels_last/policy.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// y = a + b, n values of each sample; y may be a or b.
template<channels_last_kernels K, class A>
TRIREME_NOINLINE void add_values(K const& k, A const* a, A const* b, A* y, std::size_t n) {
    if (!k.computing()) return;
    using vector = reckoned_vector<A>;
    for_registers<vector>(n * k.samples(), [=](std::size_t i, auto count) {
        write_numbers(read_numbers<vector>(a + i, count) + read_numbers<vector>(b + i, count), y + i, count);
    });
}

} // namespace trireme::inline TRIREME_ISA
