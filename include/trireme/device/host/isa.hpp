// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>

// The instruction set of this translation unit. Lane width follows the target macros, and everything whose machine code
// depends on it lives in an inline namespace keyed by it, so that objects built for different targets never mix.
#if defined(__AVX512F__)
#define TRIREME_ISA isa_avx512
#elif defined(__AVX2__) && defined(__FMA__)
#define TRIREME_ISA isa_avx2
#else
#define TRIREME_ISA isa_baseline
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
inline constexpr char const* instruction_set = "baseline";
#endif

} // namespace trireme::inline TRIREME_ISA
