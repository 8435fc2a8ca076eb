// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/onednn/policy.hpp>

#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

template<class G>
TRIREME_COLD onednn_layer<onednn_library::convolution> onednn_conv2d(std::size_t samples, layer_shapes const&) {
    auto const n = static_cast<dnnl::memory::dim>(samples);
    return {{{G::stride, G::stride}, {G::padding, G::padding}},
            {n, G::channels, G::height, G::width},
            {G::out_channels, G::channels, G::kernel, G::kernel},
            {n, G::out_channels, G::out_height, G::out_width}};
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = conv(x, w) + b. x: N x H x W x C, w: O x C x K x K, b: O, y: N x OH x OW x O.
template<class G, std::size_t, class A>
void conv2d_forward(onednn_kernels<A> const& k, A const* x, float const* w, float const* b, A* y) {
    k.state().forward(k.row(), k.samples(), &detail::onednn_conv2d<G>, x, w, b, y);
}

/// dx = the gradient with respect to x; overwrites dx.
template<class G, std::size_t, class A>
void conv2d_backward_input(onednn_kernels<A> const& k, float const* w, A const* dy, A* dx) {
    k.state().backward_input(k.row(), k.samples(), &detail::onednn_conv2d<G>, w, dy, dx);
}

/// Adds the gradients with respect to w and b, summed over the samples, to dw and db.
template<class G, std::size_t, class A>
void conv2d_backward_weights(onednn_kernels<A> const& k, A const* x, A const* dy, float* dw, float* db) {
    k.state().backward_weights(k.row(), k.samples(), &detail::onednn_conv2d<G>, x, dy, dw, db, G::out_channels);
}

} // namespace trireme::inline TRIREME_ISA
