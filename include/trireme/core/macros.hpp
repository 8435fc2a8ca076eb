// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// An include that finds nothing is fatal, and ends what would else be a thousand errors; all entry headers begin here.
#if __cplusplus < 202002L
#error "Trireme needs C++20: compile with -std=c++20 (g++ 12, clang 14, nvcc 13, or newer)"
#define TRIREME_STOP <Trireme needs C++20: compile with -std=c++20>
#include TRIREME_STOP
#endif

/// The only macros of the library. None of them selects a backend.

/// Functors that host and device code share.
#if defined(__CUDACC__)
#define TRIREME_HOST_DEVICE __host__ __device__
#else
#define TRIREME_HOST_DEVICE
#endif

/// Before a loop of device code with a known number of turns: what it indexes stays in registers; or, if it indexes
/// none of them, its turns do not have registers of their own.
#if defined(__CUDA_ARCH__)
#define TRIREME_UNROLL _Pragma("unroll")
#define TRIREME_ROLLED _Pragma("unroll 1")
#else
#define TRIREME_UNROLL
#define TRIREME_ROLLED
#endif

/// Kernels and updates are outlined once per geometry and dtype: the same machine code runs in every layout of devices
/// (without which bits would differ), and compile time does not grow with the number of layers.
#define TRIREME_NOINLINE [[gnu::noinline]]
#define TRIREME_RESTRICT __restrict__

/// Functions that errors need, or that run once, before the first step, are compiled for size, which takes half the
/// time, and lie out of the way of the rest.
#define TRIREME_COLD [[gnu::cold, gnu::noinline]]

/// The reproducible policies need IEEE arithmetic: no reassociation by the compiler. (clang tells of -ffast-math only;
/// g++ of its parts as well.)
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__)
#define TRIREME_FAST_MATH 1
#else
#define TRIREME_FAST_MATH 0
#endif
