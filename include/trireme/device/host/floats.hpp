// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>

#include <cfenv>
#include <limits>

namespace trireme {

/// The default floating-point environment for the calling thread, as long as the object lives: numbers are rounded to
/// the nearest, denormal ones are kept, nothing traps. Afterwards the thread has its own environment again. A thread
/// may have been given another one by its program, or by a library that was compiled with -ffast-math; groups compute
/// in this one on every rank, so that bits do not depend on the threads of the program.
///
/// On x86-64 it is that of vector instructions, which all of the library's numbers go through.
class default_floats {
public:
#if defined(__x86_64__)
    default_floats() noexcept : before_(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(0x1F80); }
    ~default_floats() { __builtin_ia32_ldmxcsr(before_); }
#else
    default_floats() noexcept {
        std::fegetenv(&before_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~default_floats() { std::fesetenv(&before_); }
#endif
    default_floats(default_floats const&) = delete;
    default_floats& operator=(default_floats const&) = delete;

private:
#if defined(__x86_64__)
    unsigned before_;
#else
    std::fenv_t before_;
#endif
};

namespace detail {
/// A call that no arithmetic is moved out of, and that is not moved itself: compilers must not find it free of effects.
template<class F>
TRIREME_NOINLINE decltype(auto) apart(F& f) {
    asm volatile("" ::: "memory");
    return f();
}
} // namespace detail

/// `f()` in the default environment. Compilers take arithmetic for independent of the environment, and would move it
/// past a change of it within one function.
template<class F>
decltype(auto) with_default_floats(F&& f) {
    default_floats const floats;
    return detail::apart(f);
}

/// True if the calling thread computes as default_floats says; a computation finds out, on any target.
TRIREME_NOINLINE inline bool floats_are_default() noexcept {
    using limits = std::numeric_limits<float>;
    float const volatile smallest = limits::min(), half = 0.5f, one = 1.0f, little = limits::epsilon() / 8;
    float const volatile denormal = smallest * half, normal = denormal / half, up = one + little, down = one - little;
    return normal == smallest && up == one && down == one;
}

} // namespace trireme
