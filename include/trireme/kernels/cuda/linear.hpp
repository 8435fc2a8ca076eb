// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/blocks/activation.hpp>
#include <trireme/kernels/blocks/bias.hpp>
#include <trireme/kernels/blocks/linear.hpp>
#include <trireme/kernels/cuda/cublaslt.hpp>
#include <trireme/kernels/cuda/policy.hpp>
#include <trireme/kernels/geometry.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace trireme::cuda_runtime {

// cuBLASLt stores matrices column by column. Our w (Out x In), x (rows x In) and y (rows x Out) lie row by row, which
// is the same as their transposes column by column: W (In x Out), X (In x rows), Y (Out x rows). A sample has one row,
// or one for each of its tokens. So
//   forward           Y  (Out x rows) = W^T X,     a bias is one number per row of Y, as cuBLASLt adds it
//   backward_input    DX (In x rows)  = W DY
//   backward_weights  DW (In x Out)   += X DY^T

template<class G>
struct linear_text {
    char const* kernel;
    std::size_t rows;
    std::string text() const {
        return std::string(kernel) + " of " + std::to_string(rows) + " rows from " + std::to_string(G::inputs) +
               " to " + std::to_string(G::outputs) + " values";
    }
};

/// Biases are added to these channels, and their gradients are sums of them. Tokens are many rows, which one block for
/// some channels would take long to add: channels last, many blocks share them.
template<class G>
using linear_channels = channel_geometry<G::outputs, G::rows, (G::rows > 1)>;

/// y = F(w x + b). Functions that cuBLASLt does not know, all without a bias, and biases that it might not be able to
/// read, are a second kernel. (Its maximum with 0 may make a NaN a 0, which relu_function does not.)
template<class F, class G, bool Everywhere, class T>
void multiply_forward(kernels_with_libraries<Everywhere> const& k, T const* x, T const* w, T const* b, T* y) {
    bool const bias_fits = reinterpret_cast<std::uintptr_t>(b) % cublaslt::bias_alignment == 0;
    constexpr bool known = !std::is_same_v<T, double> && // whose products end with nothing
                           (std::is_same_v<F, identity_function> || std::is_same_v<F, relu_function>);
    constexpr auto known_end = std::is_same_v<F, relu_function> ? matrix_end::bias_relu : matrix_end::bias;
    bool const at_once = G::bias && known && bias_fits;
    std::size_t const rows = blocks::rows_of<G>(k);
    matrix_product const product{G::outputs, rows, G::inputs, true, false, at_once ? known_end : matrix_end::write};
    k.libraries().cublaslt().multiply(k.queue(), k.scratch(), product, w, x, at_once ? b : nullptr, y,
                                      linear_text<G>{"linear_forward", rows});
    if constexpr (G::bias) {
        if (!at_once) blocks::add_bias<F, linear_channels<G>>(k.blocks(), b, y);
    } else if constexpr (!std::is_same_v<F, identity_function>) {
        activation_forward<F>(k.blocks(), static_cast<T const*>(y), y, G::rows * G::outputs);
    }
}

/// dx = w^T dy
template<class G, bool Everywhere, class T>
void multiply_backward_input(kernels_with_libraries<Everywhere> const& k, T const* w, T const* dy, T* dx) {
    std::size_t const rows = blocks::rows_of<G>(k);
    matrix_product const product{G::inputs, rows, G::outputs, false, false, matrix_end::write};
    k.libraries().cublaslt().multiply(k.queue(), k.scratch(), product, w, dy, static_cast<T const*>(nullptr), dx,
                                      linear_text<G>{"linear_backward_input", rows});
}

/// dw += dy x^T, db += dy, summed over the rows. cuBLASLt could write db, but not add to it.
template<class G, bool Everywhere, class T>
void multiply_backward_weights(kernels_with_libraries<Everywhere> const& k, T const* x, T const* dy, T* dw, T* db) {
    auto const end = k.gradients_are_new() ? matrix_end::write : matrix_end::add;
    std::size_t const rows = blocks::rows_of<G>(k);
    matrix_product const product{G::inputs, G::outputs, rows, false, true, end};
    k.libraries().cublaslt().multiply(k.queue(), k.scratch(), product, x, dy, static_cast<T const*>(nullptr), dw,
                                      linear_text<G>{"linear_backward_weights", rows});
    if constexpr (G::bias) blocks::add_bias_gradient<linear_channels<G>>(k.blocks(), dy, db);
}

} // namespace trireme::cuda_runtime

namespace trireme {

// The meaning is that of the block programs; see kernels/blocks/linear.hpp.

template<class G, std::size_t Lanes, bool Everywhere, class T>
void linear_forward(kernels_with_libraries<Everywhere> const& k, T const* x, T const* w, T const* b, T* y) {
    if constexpr (Everywhere || cuda_runtime::matrix_for_library<G>) {
        if (k.samples() != 0) cuda_runtime::multiply_forward<identity_function, G>(k, x, w, b, y);
    } else {
        linear_forward<G, Lanes>(k.blocks(), x, w, b, y);
    }
}
template<class G, std::size_t Lanes, bool Everywhere, class F, class T>
void linear_forward(with_function<kernels_with_libraries<Everywhere>, F, T> const& k, T const* x, T const* w,
                    T const* b, T* y) {
    if constexpr (Everywhere || cuda_runtime::matrix_for_library<G>) {
        if (k.samples() != 0) cuda_runtime::multiply_forward<F, G>(k.without(), x, w, b, y);
    } else {
        linear_forward<G, Lanes>(cuda_runtime::blocks_of(k), x, w, b, y);
    }
}

template<class G, std::size_t Lanes, bool Everywhere, class T>
void linear_backward_input(kernels_with_libraries<Everywhere> const& k, T const* w, T const* dy, T* dx) {
    if constexpr (Everywhere || cuda_runtime::matrix_for_library<G>) {
        if (k.samples() != 0) cuda_runtime::multiply_backward_input<G>(k, w, dy, dx);
    } else {
        linear_backward_input<G, Lanes>(k.blocks(), w, dy, dx);
    }
}
template<class G, std::size_t Lanes, bool Everywhere, class F, class T>
void linear_backward_input(with_function<kernels_with_libraries<Everywhere>, F, T> const& k, T const* w, T const* dy,
                           T* dx) {
    if constexpr (Everywhere || cuda_runtime::matrix_for_library<G>) {
        linear_backward_input<G, Lanes>(k.without(), w, dy, dx);
        activation_backward_input<F>(k.blocks(), k.input(), k.input(), static_cast<T const*>(dx), dx,
                                     G::rows * G::inputs);
    } else {
        linear_backward_input<G, Lanes>(cuda_runtime::blocks_of(k), w, dy, dx);
    }
}

template<class G, std::size_t Lanes, bool Everywhere, class T>
void linear_backward_weights(kernels_with_libraries<Everywhere> const& k, T const* x, T const* dy, T* dw, T* db) {
    if constexpr (Everywhere || cuda_runtime::matrix_for_library<G>) {
        if (k.samples() != 0) cuda_runtime::multiply_backward_weights<G>(k, x, dy, dw, db);
    } else {
        linear_backward_weights<G, Lanes>(k.blocks(), x, dy, dw, db);
    }
}

} // namespace trireme
