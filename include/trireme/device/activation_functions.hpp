// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>

#include <cmath>

namespace trireme {

// Elementwise functions: y = value(x), and dy/dx = slope(x, y). Host and device code share them.

/// Stands for none, where a kernel can apply a function to what it writes.
struct identity_function {
    template<class T>
    TRIREME_HOST_DEVICE static T value(T x) noexcept {
        return x;
    }
    template<class T>
    TRIREME_HOST_DEVICE static T slope(T, T) noexcept {
        return T(1);
    }
};

/// 1 / (1 + exp(-x)), without overflow and without losing small results.
struct sigmoid_function {
    template<class T>
    TRIREME_HOST_DEVICE static T value(T x) noexcept {
        T const e = std::exp(x < 0 ? x : -x);
        return (x < 0 ? e : T(1)) / (T(1) + e);
    }
    template<class T>
    TRIREME_HOST_DEVICE static T slope(T, T y) noexcept {
        return y * (T(1) - y);
    }
};

struct hyperbolic_tangent_function {
    template<class T>
    TRIREME_HOST_DEVICE static T value(T x) noexcept {
        return std::tanh(x);
    }
    template<class T>
    TRIREME_HOST_DEVICE static T slope(T, T y) noexcept {
        return T(1) - y * y;
    }
};

/// max(x, 0); the slope at 0 is 0, and a NaN stays a NaN. The slope is told by y alone, so that x need not be kept.
struct relu_function {
    template<class T>
    TRIREME_HOST_DEVICE static T value(T x) noexcept {
        return x <= 0 ? T(0) : x;
    }
    template<class T>
    TRIREME_HOST_DEVICE static T slope(T, T y) noexcept {
        return y <= 0 ? T(0) : T(1);
    }
};

} // namespace trireme
