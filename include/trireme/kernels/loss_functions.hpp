// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>

#include <cmath>

namespace trireme {

// Losses of single values: value(x, target), and its derivative by x, slope(x, target). Host and device code share
// them. Functions of logits say so, `static constexpr bool of_logits = true`.

template<class F>
inline constexpr bool is_of_logits = false;
template<class F>
    requires(F::of_logits)
inline constexpr bool is_of_logits<F> = true;

/// True if a logit says the label, 0 or 1, that is next to its target.
template<class T>
TRIREME_HOST_DEVICE bool says_label(T logit, T target) noexcept {
    return (logit > 0) == (target > T(0.5));
}

/// (x - target)^2.
struct squared_error_function {
    static constexpr int operations = 3;
    template<class T>
    TRIREME_HOST_DEVICE static T value(T x, T target) noexcept {
        return (x - target) * (x - target);
    }
    template<class T>
    TRIREME_HOST_DEVICE static T slope(T x, T target) noexcept {
        return 2 * (x - target);
    }
};

/// -target log p - (1 - target) log(1 - p) with p = 1 / (1 + exp(-x)), computed so that nothing overflows.
struct logistic_error_function {
    static constexpr int operations = 6;
    static constexpr bool of_logits = true;
    template<class T>
    TRIREME_HOST_DEVICE static T value(T x, T target) noexcept {
        return (x > 0 ? x : T(0)) - x * target + std::log1p(std::exp(x > 0 ? -x : x));
    }
    template<class T>
    TRIREME_HOST_DEVICE static T slope(T x, T target) noexcept {
        T const e = std::exp(x > 0 ? -x : x);
        return (x > 0 ? T(1) : e) / (1 + e) - target;
    }
};

} // namespace trireme
