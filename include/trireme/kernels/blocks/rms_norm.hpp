// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/layer_norm.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/geometry.hpp>

#include <cstddef>

namespace trireme {

/// y = w x / sqrt(mean of squares + epsilon), with each token's own mean. x, y: Tokens x Width per sample, w: Width.
template<class G, std::size_t Lanes, class Stream, class A, class T>
void rms_norm_forward(block_kernels<Stream> const& k, A const* x, T const* w, double epsilon, A* y) {
    T const* const bias = nullptr;
    blocks::launch_norm<blocks::rms_norm_of<G>>(k, k.samples() * G::tokens, x, w, bias, epsilon, y);
}

/// dx = scale (g - normalised x times mean of g times it), where g = w dy; overwrites dx, which may be dy.
template<class G, std::size_t Lanes, class Stream, class A, class T>
void rms_norm_backward_input(block_kernels<Stream> const& k, A const* x, A const* dy, T const* w, double epsilon,
                             A* dx) {
    blocks::launch_norm_input<blocks::rms_norm_of<G>>(k, k.samples() * G::tokens, x, dy, w, epsilon, dx);
}

/// dw += dy times the normalised x, summed over all tokens.
template<class G, std::size_t Lanes, class Stream, class A, class T>
void rms_norm_backward_weights(block_kernels<Stream> const& k, A const* x, A const* dy, double epsilon, T* dw) {
    T* const bias = nullptr;
    blocks::launch_norm_weights<blocks::rms_norm_of<G>>(k, k.samples() * G::tokens, x, dy, epsilon, dw, bias);
}

} // namespace trireme
