// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/blocks/activation.hpp>
#include <trireme/device/blocks/conv2d.hpp>
#include <trireme/device/cuda/kernels/cudnn.hpp>
#include <trireme/device/cuda/kernels/policies.hpp>
#include <trireme/device/geometry.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme::cuda_runtime {

/// cuDNN takes addresses that are multiples of this, whatever the type; parameters may be aligned by their size only.
template<class G>
inline constexpr std::size_t cudnn_alignment = G::channels_last ? 16 : 4;
template<class G, class T>
bool cudnn_takes(T const* a, T const* b, T const* c) noexcept {
    return ((reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) |
             reinterpret_cast<std::uintptr_t>(c)) &
            (cudnn_alignment<G> - 1)) == 0;
}

/// What a convolution gives.
template<class G>
using convolved = channel_geometry<G::out_channels, G::out_height * G::out_width, G::channels_last>;

/// y = F(conv(x, w) + b); bias and function are a second kernel, which knows every function and keeps NaNs.
template<class F, class G, bool Everywhere, class T>
void convolve_forward(kernels_with_libraries<Everywhere> const& k, T const* x, T const* w, T const* b, T* y) {
    k.libraries().cudnn().convolve(k.queue(), k.scratch(), convolution_sizes::of<G>(k.samples()), x, w, y);
    add_bias<F, convolved<G>>(k.blocks(), b, y);
}

} // namespace trireme::cuda_runtime

namespace trireme {

// The meaning is that of the block programs; see device/blocks/conv2d.hpp. They also do what cuDNN cannot address.

template<class G, std::size_t Lanes, bool Everywhere, class T>
void conv2d_forward(kernels_with_libraries<Everywhere> const& k, T const* x, T const* w, T const* b, T* y) {
    if constexpr (Everywhere || cuda_runtime::convolution_for_library<G>) {
        if constexpr (sizeof(T) % cuda_runtime::cudnn_alignment<G> != 0)
            if (!cuda_runtime::cudnn_takes<G>(x, w, y)) return conv2d_forward<G, Lanes>(k.blocks(), x, w, b, y);
        if (k.samples() != 0) cuda_runtime::convolve_forward<identity_function, G>(k, x, w, b, y);
    } else {
        conv2d_forward<G, Lanes>(k.blocks(), x, w, b, y);
    }
}
template<class G, std::size_t Lanes, bool Everywhere, class F, class T>
void conv2d_forward(with_function<kernels_with_libraries<Everywhere>, F, T> const& k, T const* x, T const* w,
                    T const* b, T* y) {
    if constexpr (Everywhere || cuda_runtime::convolution_for_library<G>) {
        if constexpr (sizeof(T) % cuda_runtime::cudnn_alignment<G> != 0)
            if (!cuda_runtime::cudnn_takes<G>(x, w, y))
                return conv2d_forward<G, Lanes>(cuda_runtime::blocks_of(k), x, w, b, y);
        if (k.samples() != 0) cuda_runtime::convolve_forward<F, G>(k.without(), x, w, b, y);
    } else {
        conv2d_forward<G, Lanes>(cuda_runtime::blocks_of(k), x, w, b, y);
    }
}

template<class G, std::size_t Lanes, bool Everywhere, class T>
void conv2d_backward_input(kernels_with_libraries<Everywhere> const& k, T const* w, T const* dy, T* dx) {
    if constexpr (Everywhere || cuda_runtime::convolution_for_library<G>) {
        if constexpr (sizeof(T) % cuda_runtime::cudnn_alignment<G> != 0)
            if (!cuda_runtime::cudnn_takes<G>(w, dy, dx)) return conv2d_backward_input<G, Lanes>(k.blocks(), w, dy, dx);
        if (k.samples() != 0)
            k.libraries().cudnn().convolve_backward_input(
                k.queue(), k.scratch(), cuda_runtime::convolution_sizes::of<G>(k.samples()), w, dy, dx);
    } else {
        conv2d_backward_input<G, Lanes>(k.blocks(), w, dy, dx);
    }
}
template<class G, std::size_t Lanes, bool Everywhere, class F, class T>
void conv2d_backward_input(with_function<kernels_with_libraries<Everywhere>, F, T> const& k, T const* w, T const* dy,
                           T* dx) {
    if constexpr (Everywhere || cuda_runtime::convolution_for_library<G>) {
        conv2d_backward_input<G, Lanes>(k.without(), w, dy, dx);
        activation_backward_input<F>(k.blocks(), k.input(), k.input(), static_cast<T const*>(dx), dx,
                                     G::channels * G::height * G::width);
    } else {
        conv2d_backward_input<G, Lanes>(cuda_runtime::blocks_of(k), w, dy, dx);
    }
}

template<class G, std::size_t Lanes, bool Everywhere, class T>
void conv2d_backward_weights(kernels_with_libraries<Everywhere> const& k, T const* x, T const* dy, T* dw, T* db) {
    if constexpr (Everywhere || cuda_runtime::convolution_for_library<G>) {
        if constexpr (sizeof(T) % cuda_runtime::cudnn_alignment<G> != 0)
            if (!cuda_runtime::cudnn_takes<G>(x, dy, dw))
                return conv2d_backward_weights<G, Lanes>(k.blocks(), x, dy, dw, db);
        if (k.samples() == 0) return;
        k.libraries().cudnn().convolve_backward_weights(k.queue(), k.scratch(),
                                                        cuda_runtime::convolution_sizes::of<G>(k.samples()), x, dy, dw);
        cuda_runtime::add_bias_gradient<cuda_runtime::convolved<G>>(k.blocks(), dy, db);
    } else {
        conv2d_backward_weights<G, Lanes>(k.blocks(), x, dy, dw, db);
    }
}

} // namespace trireme
