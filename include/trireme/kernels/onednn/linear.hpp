// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/onednn/policy.hpp>

#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

/// Behind a flattened image the weights are those of an image as well, PyTorch's (O, C x H x W) being (O, C, H, W): so
/// that nothing need be reordered.
template<class G>
TRIREME_COLD onednn_layer<onednn_library::inner_product> onednn_linear(std::size_t samples, layer_shapes const& of) {
    auto const n = static_cast<dnnl::memory::dim>(samples);
    dnnl::memory::dims x{n}, w{G::outputs};
    for (int i = 0; i < of.viewed.rank; ++i) {
        x.push_back(static_cast<dnnl::memory::dim>(of.viewed.extent[i]));
        w.push_back(x.back());
    }
    return {{}, x, w, {n, G::outputs}, G::bias};
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = w x + b. x: N x In, or N x H x W x C, w: Out x In, b: Out, y: N x Out.
template<class G, std::size_t, class A>
void linear_forward(onednn_kernels<A> const& k, A const* x, float const* w, float const* b, A* y) {
    k.state().forward(k.row(), k.samples(), &detail::onednn_linear<G>, x, w, b, y);
}

/// dx = w^T dy; overwrites dx.
template<class G, std::size_t, class A>
void linear_backward_input(onednn_kernels<A> const& k, float const* w, A const* dy, A* dx) {
    k.state().backward_input(k.row(), k.samples(), &detail::onednn_linear<G>, w, dy, dx);
}

/// dw += dy x^T and db += dy, summed over the samples.
template<class G, std::size_t, class A>
void linear_backward_weights(onednn_kernels<A> const& k, A const* x, A const* dy, float* dw, float* db) {
    k.state().backward_weights(k.row(), k.samples(), &detail::onednn_linear<G>, x, dy, dw, db, G::outputs);
}

} // namespace trireme::inline TRIREME_ISA
