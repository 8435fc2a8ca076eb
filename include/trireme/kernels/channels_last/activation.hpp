// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/stored_numbers.hpp>
#include <trireme/kernels/channels_last/policy.hpp>
#include <trireme/kernels/portable/activation.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

// Functions of each value by itself need no layout: portable's functions of a register serve here.

/// y = F(x), n values of each sample; y may be x.
template<class F, channels_last_kernels K, class A>
TRIREME_NOINLINE void activation_forward(K const& k, A const* x, A* y, std::size_t n) {
    if (!k.computing()) return;
    using vector = reckoned_vector<A>;
    for_registers<vector>(n * k.samples(), [=](std::size_t i, auto count) {
        write_numbers(register_function<F>::value(read_numbers<vector>(x + i, count)), y + i, count);
    });
}

/// dx = dy * F'(x), n values of each sample, with x and y of the forward pass; dx may be dy.
template<class F, channels_last_kernels K, class A>
TRIREME_NOINLINE void activation_backward_input(K const& k, A const* x, A const* y, A const* dy, A* dx, std::size_t n) {
    if (!k.computing()) return;
    using vector = reckoned_vector<A>;
    for_registers<vector>(n * k.samples(), [=](std::size_t i, auto count) {
        auto const slope =
            register_function<F>::slope(read_numbers<vector>(x + i, count), read_numbers<vector>(y + i, count));
        write_numbers(read_numbers<vector>(dy + i, count) * slope, dx + i, count);
    });
}

} // namespace trireme::inline TRIREME_ISA
