// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>

namespace trireme::cuda_runtime {

// From which size on a library is worth its price: its launches, and functions that are not part of its kernels.
// Estimates, not measured yet. Apart from the policy, so that a rehearsal counts what a GPU would be handed.

/// Most weights of a convolution that a block keeps in its shared memory, beside an image.
inline constexpr std::size_t most_weights_of_blocks = 16384;
template<class G>
inline constexpr bool convolution_for_library =
    G::channels * G::kernel * G::kernel * G::out_channels > most_weights_of_blocks;

/// Fewest weights of a matrix for which cuBLASLt has kernels that fill the GPU.
inline constexpr std::size_t fewest_weights_of_cublaslt = 65536;
template<class G>
inline constexpr bool matrix_for_library = G::inputs * G::outputs >= fewest_weights_of_cublaslt;

} // namespace trireme::cuda_runtime
