// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/blocks/activation.hpp>
#include <trireme/kernels/blocks/pool2d.hpp>
#include <trireme/kernels/cuda/cudnn.hpp>
#include <trireme/kernels/cuda/policy.hpp>
#include <trireme/kernels/geometry.hpp>

#include <cstddef>

// Pooling reads and writes every value about once, which block programs do as well as cuDNN. So cuDNN does it only
// where libraries do everything; and even there not the maximum: cuDNN does not leave its place for the way back, nor
// say which of several equal maxima it takes.
namespace trireme::cuda_runtime {

template<class G>
inline constexpr std::size_t pool2d_inputs = G::channels * G::height * G::width;
template<class G>
inline constexpr std::size_t pool2d_outputs = G::channels * G::out_height * G::out_width;

} // namespace trireme::cuda_runtime

namespace trireme {

template<class G, std::size_t Lanes, class T>
void avg_pool2d_forward(cuda_library_kernels const& k, T const* x, T* y) {
    if (k.samples() != 0)
        k.libraries().cudnn().pool(k.queue(), cuda_runtime::pooling_sizes::of<G>(k.samples(), false), x, y);
}
template<class G, std::size_t Lanes, class F, class T>
void avg_pool2d_forward(with_function<cuda_library_kernels, F, T> const& k, T const* x, T* y) {
    avg_pool2d_forward<G, Lanes>(k.without(), x, y);
    activation_forward<F>(k.blocks(), static_cast<T const*>(y), y, cuda_runtime::pool2d_outputs<G>);
}

template<class G, std::size_t Lanes, class T>
void avg_pool2d_backward_input(cuda_library_kernels const& k, T const* dy, T* dx) {
    if (k.samples() != 0)
        k.libraries().cudnn().mean_backward_input(k.queue(), cuda_runtime::pooling_sizes::of<G>(k.samples(), false), dy,
                                                  dx);
}
template<class G, std::size_t Lanes, class F, class T>
void avg_pool2d_backward_input(with_function<cuda_library_kernels, F, T> const& k, T const* dy, T* dx) {
    avg_pool2d_backward_input<G, Lanes>(k.without(), dy, dx);
    activation_backward_input<F>(k.blocks(), k.input(), k.input(), static_cast<T const*>(dx), dx,
                                 cuda_runtime::pool2d_inputs<G>);
}

} // namespace trireme
