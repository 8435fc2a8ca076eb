// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// g++ defines a macro, clang has to be asked.
#if defined(__has_feature)
#define TRIREME_TEST_FEATURE(name) __has_feature(name)
#else
#define TRIREME_TEST_FEATURE(name) 0
#endif

/// True if a sanitizer checks this program, which then takes five to twenty times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || TRIREME_TEST_FEATURE(address_sanitizer) ||        \
    TRIREME_TEST_FEATURE(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
