// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>

#include <cmath>

namespace trireme {

// Losses of single values: value(x, target), and its derivative by x, slope(x, target). Host and device code share
// them.

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
