// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/blocks/activation.hpp>
#include <trireme/kernels/blocks/bias.hpp>
#include <trireme/kernels/blocks/conv2d.hpp>
#include <trireme/kernels/cuda/cudnn.hpp>
#include <trireme/kernels/cuda/policy.hpp>
#include <trireme/kernels/geometry.hpp>

#include <cstddef>
#include <cstdint>

namespace trireme::cuda_runtime {

/// cuDNN's plan for a convolution between these tensors; null where it cannot, which is the same at every call: then
/// the block programs do. Parameters lie without gaps, so they may be aligned by their size only.
template<class G, bool Everywhere, class T>
auto plan_of(kernels_with_libraries<Everywhere> const& k, convolution_pass which, T const* a, T const* b, T const* c) {
    auto const address =
        reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) | reinterpret_cast<std::uintptr_t>(c);
    return k.libraries().cudnn().template plan<T>(convolution_sizes::of<G>(k.samples()), k.scratch(), which,
                                                  address % cudnn::alignment == 0);
}

/// The geometry of a convolution's output.
template<class G>
using convolved = channel_geometry<G::out_channels, G::out_height * G::out_width, G::channels_last>;

/// y = F(conv(x, w) + b); bias and function are a second kernel, which knows every function and keeps NaNs. False if
/// cuDNN cannot do it.
template<class F, class G, bool Everywhere, class T>
bool convolve_forward(kernels_with_libraries<Everywhere> const& k, T const* x, T const* w, T const* b, T* y) {
    if (k.samples() == 0) return true;
    auto const* const plan = plan_of<G, Everywhere, T>(k, convolution_pass::forward, x, w, y);
    if (plan == nullptr) return false;
    k.libraries().cudnn().convolve(k.queue(), k.scratch(), convolution_sizes::of<G>(k.samples()), *plan, x, w, y);
    blocks::add_bias<F, convolved<G>>(k.blocks(), b, y);
    return true;
}
template<class G, bool Everywhere, class T>
bool convolve_backward_input(kernels_with_libraries<Everywhere> const& k, T const* w, T const* dy, T* dx) {
    if (k.samples() == 0) return true;
    auto const* const plan = plan_of<G, Everywhere, T>(k, convolution_pass::backward_input, w, dy, dx);
    if (plan == nullptr) return false;
    k.libraries().cudnn().convolve_backward_input(k.queue(), k.scratch(), convolution_sizes::of<G>(k.samples()), *plan,
                                                  w, dy, dx);
    return true;
}
template<class G, bool Everywhere, class T>
bool convolve_backward_weights(kernels_with_libraries<Everywhere> const& k, T const* x, T const* dy, T* dw, T* db) {
    if (k.samples() == 0) return true;
    auto const* const plan = plan_of<G, Everywhere, T>(k, convolution_pass::backward_weights, x, dy, dw);
    if (plan == nullptr) return false;
    k.libraries().cudnn().convolve_backward_weights(k.queue(), k.scratch(), convolution_sizes::of<G>(k.samples()),
                                                    *plan, x, dy, dw, k.gradients_are_new());
    blocks::add_bias_gradient<convolved<G>>(k.blocks(), dy, db);
    return true;
}

} // namespace trireme::cuda_runtime

namespace trireme {

// The meaning is that of the block programs; see kernels/blocks/conv2d.hpp. They also do what cuDNN cannot.

template<class G, std::size_t Lanes, bool Everywhere, class T>
void conv2d_forward(kernels_with_libraries<Everywhere> const& k, T const* x, T const* w, T const* b, T* y) {
    if constexpr (Everywhere || cuda_runtime::goes_to_library<G, T>)
        if (cuda_runtime::convolve_forward<identity_function, G>(k, x, w, b, y)) return;
    conv2d_forward<G, Lanes>(k.blocks(), x, w, b, y);
}
template<class G, std::size_t Lanes, bool Everywhere, class F, class T>
void conv2d_forward(with_function<kernels_with_libraries<Everywhere>, F, T> const& k, T const* x, T const* w,
                    T const* b, T* y) {
    if constexpr (Everywhere || cuda_runtime::goes_to_library<G, T>)
        if (cuda_runtime::convolve_forward<F, G>(k.without(), x, w, b, y)) return;
    conv2d_forward<G, Lanes>(cuda_runtime::blocks_of(k), x, w, b, y);
}

template<class G, std::size_t Lanes, bool Everywhere, class T>
void conv2d_backward_input(kernels_with_libraries<Everywhere> const& k, T const* w, T const* dy, T* dx) {
    if constexpr (Everywhere || cuda_runtime::goes_to_library<G, T>)
        if (cuda_runtime::convolve_backward_input<G>(k, w, dy, dx)) return;
    conv2d_backward_input<G, Lanes>(k.blocks(), w, dy, dx);
}
template<class G, std::size_t Lanes, bool Everywhere, class F, class T>
void conv2d_backward_input(with_function<kernels_with_libraries<Everywhere>, F, T> const& k, T const* w, T const* dy,
                           T* dx) {
    if constexpr (Everywhere || cuda_runtime::goes_to_library<G, T>) {
        if (cuda_runtime::convolve_backward_input<G>(k.without(), w, dy, dx))
            return activation_backward_input<F>(k.blocks(), k.input(), k.input(), static_cast<T const*>(dx), dx,
                                                G::channels * G::height * G::width);
    }
    conv2d_backward_input<G, Lanes>(cuda_runtime::blocks_of(k), w, dy, dx);
}

template<class G, std::size_t Lanes, bool Everywhere, class T>
void conv2d_backward_weights(kernels_with_libraries<Everywhere> const& k, T const* x, T const* dy, T* dw, T* db) {
    if constexpr (Everywhere || cuda_runtime::goes_to_library<G, T>)
        if (cuda_runtime::convolve_backward_weights<G>(k, x, dy, dw, db)) return;
    conv2d_backward_weights<G, Lanes>(k.blocks(), x, dy, dw, db);
}

} // namespace trireme
