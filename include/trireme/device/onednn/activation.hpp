// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/kernels/portable/activation.hpp>
#include <trireme/device/host/kernels/portable/add.hpp>
#include <trireme/device/onednn/kernels.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

// What is about each value by itself does not care how values lie: portable's kernels, over all samples.

/// y = F(x), n values of each sample; y may be x.
template<class F, class T>
void activation_forward(onednn const& k, T const* x, T* y, std::size_t n) {
    if (k.computing()) activation_forward<F>(portable{}, x, y, n * k.samples());
}

/// dx = dy * F'(x), n values of each sample, with x and y of the forward pass; dx may be dy.
template<class F, class T>
void activation_backward_input(onednn const& k, T const* x, T const* y, T const* dy, T* dx, std::size_t n) {
    if (k.computing()) activation_backward_input<F>(portable{}, x, y, dy, dx, n * k.samples());
}

/// y = a + b, n values of each sample; y may be a or b.
template<class T>
void add_values(onednn const& k, T const* a, T const* b, T* y, std::size_t n) {
    if (k.computing()) add_values(portable{}, a, b, y, n * k.samples());
}

} // namespace trireme::inline TRIREME_ISA
