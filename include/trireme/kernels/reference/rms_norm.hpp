// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/reference/policy.hpp>

#include <cmath>
#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

/// 1 / sqrt(mean of squares + epsilon) of a token.
template<class G, std::size_t Lanes, class T>
T rms_norm_scale(T const* x, double epsilon) {
    T squares = 0;
    for (std::size_t d = 0; d < G::width; ++d) squares += x[d * Lanes] * x[d * Lanes];
    return T(1) / std::sqrt(squares / static_cast<T>(G::width) + static_cast<T>(epsilon));
}

/// The weight of a value; 1 if there is none.
template<class G, class T>
T rms_norm_weight([[maybe_unused]] T const* w, [[maybe_unused]] std::size_t d) {
    if constexpr (G::weighted)
        return w[d];
    else
        return T(1);
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = w x / sqrt(mean of squares + epsilon), with each token's own mean. x, y: Tokens x Width, w: Width.
template<class G, std::size_t Lanes, class T>
void rms_norm_forward(reference, T const* x, T const* w, double epsilon, T* y) {
    for (std::size_t t = 0; t < G::tokens; ++t)
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            auto const at = t * G::width * Lanes + lane;
            T const scale = detail::rms_norm_scale<G, Lanes>(x + at, epsilon);
            for (std::size_t d = 0; d < G::width; ++d)
                y[at + d * Lanes] = detail::rms_norm_weight<G>(w, d) * (x[at + d * Lanes] * scale);
        }
}

/// dx = scale (g - normalised x times mean of g times it), where g = w dy; overwrites dx.
template<class G, std::size_t Lanes, class T>
void rms_norm_backward_input(reference, T const* x, T const* dy, T const* w, double epsilon, T* dx) {
    for (std::size_t t = 0; t < G::tokens; ++t)
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            auto const at = t * G::width * Lanes + lane;
            T const scale = detail::rms_norm_scale<G, Lanes>(x + at, epsilon);
            auto const slope = [&](std::size_t d) { return detail::rms_norm_weight<G>(w, d) * dy[at + d * Lanes]; };
            T with_x = 0;
            for (std::size_t d = 0; d < G::width; ++d) with_x += slope(d) * (x[at + d * Lanes] * scale);
            with_x /= static_cast<T>(G::width);
            for (std::size_t d = 0; d < G::width; ++d)
                dx[at + d * Lanes] = scale * (slope(d) - x[at + d * Lanes] * scale * with_x);
        }
}

/// dw += dy times the normalised x, summed over tokens and lanes.
template<class G, std::size_t Lanes, class T>
void rms_norm_backward_weights(reference, T const* x, T const* dy, double epsilon, T* dw) {
    for (std::size_t t = 0; t < G::tokens; ++t)
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            auto const at = t * G::width * Lanes + lane;
            T const scale = detail::rms_norm_scale<G, Lanes>(x + at, epsilon);
            for (std::size_t d = 0; d < G::width; ++d) dw[d] += dy[at + d * Lanes] * (x[at + d * Lanes] * scale);
        }
}

} // namespace trireme::inline TRIREME_ISA
