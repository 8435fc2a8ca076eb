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

/// x times the normal distribution's share below x: x (1 + erf(x / sqrt 2)) / 2. The slope reads x.
/// Source: Hendrycks and Gimpel, "Gaussian error linear units", 2016.
struct gelu_function {
    template<class T>
    TRIREME_HOST_DEVICE static T value(T x) noexcept {
        return x * below(x);
    }
    template<class T>
    TRIREME_HOST_DEVICE static T slope(T x, T) noexcept {
        T const density = T(0.39894228040143267794) * std::exp(-x * x / T(2)); // 1 / sqrt(2 pi)
        return below(x) + x * density;
    }

private:
    template<class T>
    TRIREME_HOST_DEVICE static T below(T x) noexcept { // erfc loses nothing where little is below
        return std::erfc(-x * T(0.70710678118654752440)) / T(2);
    }
};

/// The Gaussian error linear unit by a hyperbolic tangent: x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715
/// x^3), off by 5e-4 at most.
struct gelu_tanh_function {
    static constexpr double scale = 0.79788456080286535588, cube = 0.044715;

    template<class T>
    TRIREME_HOST_DEVICE static T value(T x) noexcept {
        return x * (T(1) + std::tanh(inside(x))) / T(2);
    }
    template<class T>
    TRIREME_HOST_DEVICE static T slope(T x, T) noexcept {
        T const t = std::tanh(inside(x)), by_u = x * (T(1) - t * t) * T(scale); // 0 far from 0, and stays so
        return (T(1) + t + by_u + T(3 * cube) * (by_u * x) * x) / T(2);
    }

private:
    template<class T>
    TRIREME_HOST_DEVICE static T inside(T x) noexcept {
        return T(scale) * (x + T(cube) * x * x * x);
    }
};

} // namespace trireme
