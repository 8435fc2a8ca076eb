// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#if !defined(__CUDACC__)
#error "trireme/device/cuda launches kernels: name the file .cu and compile it with nvcc -std=c++20"
#endif

#include <trireme/device/accelerator.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace trireme::cuda_runtime {

/// The number of phases of a program, if its type knows it: `static constexpr int phase_count`; 0 if only its object
/// does.
template<class P, class = void>
inline constexpr int known_phases = 0;
template<class P>
inline constexpr int known_phases<P, std::void_t<decltype(P::phase_count)>> = P::phase_count;

/// Every phase by a call of its own, so that the compiler knows the number of the phase.
template<class P, int... Phase>
__device__ void run_known_phases(P const& program, block_place at, typename P::shared& shared, typename P::own& own,
                                 std::integer_sequence<int, Phase...>) {
    constexpr int last = sizeof...(Phase) - 1;
    auto const run = [&](auto phase) {
        program.phase(phase.value, at, shared, own);
        if constexpr (phase.value < last) __syncthreads();
    };
    (run(std::integral_constant<int, Phase>{}), ...);
}

template<class P>
__device__ void run_phases(P const& program, typename P::shared& shared) {
    block_place const at{blockIdx.x, gridDim.x, threadIdx.x};
    typename P::own own;
    if constexpr (known_phases<P> != 0) {
        run_known_phases(program, at, shared, own, std::make_integer_sequence<int, known_phases<P>>{});
    } else {
        int const phases = program.phases();
        for (int k = 0; k < phases; ++k) {
            if (k != 0) __syncthreads();
            program.phase(k, at, shared, own);
        }
    }
}

/// The one kernel of the library: a block program, phase by phase, with a barrier between two. Its name holds the size
/// of the argument that the host hands over, so that tests can compare that with what the compiled kernel reads.
template<class P, std::size_t = sizeof(P)>
__global__ void __launch_bounds__(P::threads) run_blocks(P const program) {
    using shared_t = typename P::shared;
    if constexpr (std::is_empty_v<shared_t>) {
        shared_t nothing;
        run_phases(program, nothing);
    } else if constexpr (std::is_trivially_default_constructible_v<shared_t>) {
        __shared__ shared_t shared;
        run_phases(program, shared);
    } else { // shared variables have no constructor: a program's memory begins undefined in any case
        alignas(shared_t) __shared__ unsigned char bytes[sizeof(shared_t)];
        run_phases(program, *reinterpret_cast<shared_t*>(bytes));
    }
}

} // namespace trireme::cuda_runtime
