// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>

#include <cstddef>

// The instruction set of this translation unit. Lane width follows the target macros, and kernels with everything that
// is instantiated over them live in an inline namespace keyed by it, so that kernels of objects built for different
// targets, or with and without fast-math, never mix. Code outside it has no vectors; build all objects of one program
// for a target that its machine has.
#define TRIREME_JOIN_NAMES(a, b) a##b
#define TRIREME_JOIN(a, b) TRIREME_JOIN_NAMES(a, b)
#if TRIREME_FAST_MATH
#define TRIREME_MATH _fast_math
#else
#define TRIREME_MATH
#endif
#if defined(__AVX512F__)
#define TRIREME_ISA TRIREME_JOIN(isa_avx512, TRIREME_MATH)
#elif defined(__AVX2__) && defined(__FMA__)
#define TRIREME_ISA TRIREME_JOIN(isa_avx2, TRIREME_MATH)
#elif defined(__AVX__)
#define TRIREME_ISA TRIREME_JOIN(isa_avx, TRIREME_MATH)
#else
#define TRIREME_ISA TRIREME_JOIN(isa_baseline, TRIREME_MATH)
#endif

namespace trireme::inline TRIREME_ISA {

/// Bytes of one vector register, and the name programs print.
#if defined(__AVX512F__)
inline constexpr std::size_t vector_bytes = 64;
inline constexpr char const* instruction_set = "AVX-512";
#elif defined(__AVX2__) && defined(__FMA__)
inline constexpr std::size_t vector_bytes = 32;
inline constexpr char const* instruction_set = "AVX2";
#else
inline constexpr std::size_t vector_bytes = 16;
inline constexpr char const* instruction_set = "128-bit vectors";
#endif

} // namespace trireme::inline TRIREME_ISA
