// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>

namespace trireme::cuda_runtime {

// From which size on a library is worth its price: its launches, and functions that are not part of its kernels.
// Apart from the policy, so that a rehearsal counts what a GPU would be handed. bench/gpu/micro.cu has both on either
// side of the bounds. On an H200, 256 samples in float, all three passes: our convolutions take 0.16 of cuDNN's time at
// 4,608 weights, 0.8 at 18,432 and 0.95 at 73,728, of images of 14 x 14 (cuDNN's gradients by weights that are
// deterministic are slow); our products 0.6 of cuBLASLt's at 32,768 weights, 1.1 at 262,144, 1.9 at a million.

/// Most weights of a convolution in float that a block keeps in its shared memory, beside an image; and most products
/// of weights and values for a sample that are worth no library. In bf16 tensor cores multiply, and block programs,
/// which compute in float, would read images of two bytes number by number.
inline constexpr std::size_t most_weights_of_blocks = 16384;
inline constexpr std::size_t most_products_of_blocks = 1000000;
/// `positions`: of the output's image.
constexpr bool convolution_for_library(std::size_t weights, std::size_t positions,
                                       std::size_t bytes_of_value) noexcept {
    return bytes_of_value < sizeof(float) || weights > most_weights_of_blocks ||
           weights * positions > most_products_of_blocks;
}
/// G: a conv2d_geometry, with values of type T.
template<class G, class T>
inline constexpr bool goes_to_library = convolution_for_library(G::channels * G::kernel * G::kernel * G::out_channels,
                                                                G::out_height* G::out_width, sizeof(T));

/// Fewest weights of a matrix for which cuBLASLt has kernels that fill the GPU.
inline constexpr std::size_t fewest_weights_of_cublaslt = 65536;
template<class G>
inline constexpr bool matrix_for_library = G::inputs * G::outputs >= fewest_weights_of_cublaslt;

} // namespace trireme::cuda_runtime
