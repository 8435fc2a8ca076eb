// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cfenv>
#include <cstddef>
#include <vector>

/// Floating-point environments that programs and libraries leave behind in a thread.
enum class other_floats { flushed, rounded_up };

inline std::vector<other_floats> all_other_floats() {
#if defined(__x86_64__)
    return {other_floats::flushed, other_floats::rounded_up};
#else
    return {other_floats::rounded_up};
#endif
}

/// Another environment for the calling thread, as long as the object lives.
class in_other_floats {
public:
    explicit in_other_floats(other_floats which) {
        std::fegetenv(&before_);
        if (which == other_floats::rounded_up) std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
        else
            __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | flush_to_zero | denormals_are_zero);
        set_ = __builtin_ia32_stmxcsr() & modes;
#endif
    }
    in_other_floats(in_other_floats const&) = delete;
    in_other_floats& operator=(in_other_floats const&) = delete;
    ~in_other_floats() { std::fesetenv(&before_); }

    /// True if the environment still is as the constructor has left it.
    bool holds() const {
#if defined(__x86_64__)
        return (__builtin_ia32_stmxcsr() & modes) == set_;
#else
        return std::fegetround() == FE_UPWARD;
#endif
    }

private:
    std::fenv_t before_;
#if defined(__x86_64__)
    static constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x40, modes = 0xFFC0;
    unsigned set_ = 0;
#endif
};

/// Weights so small that they, and the gradients of most, are denormal.
inline std::vector<float> denormal_weights(std::size_t n) {
    std::vector<float> w(n);
    for (std::size_t i = 0; i < n; ++i) w[i] = static_cast<float>(static_cast<int>(i * 37 % 199) - 99) * 1e-41f;
    return w;
}
