// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <doctest/doctest.h>

/// True if oneDNN has kernels for bf16 on this processor; says so if it has not.
inline bool has_bf16() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw")) return true;
#endif
    MESSAGE("left out: oneDNN has no bf16 on this processor");
    return false;
}
