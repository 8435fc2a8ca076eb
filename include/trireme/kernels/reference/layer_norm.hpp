// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/reference/policy.hpp>

#include <cmath>
#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

/// Mean and 1 / sqrt(variance + epsilon) of a token.
template<class G, std::size_t Lanes, class T>
struct token_statistics {
    T mean = 0, deviation = 0;

    token_statistics(T const* x, double epsilon) {
        for (std::size_t d = 0; d < G::width; ++d) mean += x[d * Lanes];
        mean /= static_cast<T>(G::width);
        T squares = 0;
        for (std::size_t d = 0; d < G::width; ++d) squares += (x[d * Lanes] - mean) * (x[d * Lanes] - mean);
        deviation = T(1) / std::sqrt(squares / static_cast<T>(G::width) + static_cast<T>(epsilon));
    }
    T normalised(T x) const { return (x - mean) * deviation; }
};

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = w (x - mean) / sqrt(variance + epsilon) + b, with each token's own mean and variance. x, y: Tokens x Width, w,
/// b: Width.
template<class G, std::size_t Lanes, class T>
void layer_norm_forward(reference, T const* x, T const* w, T const* b, double epsilon, T* y) {
    for (std::size_t t = 0; t < G::tokens; ++t)
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            auto const at = t * G::width * Lanes + lane;
            detail::token_statistics<G, Lanes, T> const of(x + at, epsilon);
            for (std::size_t d = 0; d < G::width; ++d)
                y[at + d * Lanes] = w[d] * of.normalised(x[at + d * Lanes]) + b[d];
        }
}

/// dx = deviation (g - mean of g - normalised x times mean of g times it), where g = w dy; overwrites dx.
template<class G, std::size_t Lanes, class T>
void layer_norm_backward_input(reference, T const* x, T const* dy, T const* w, double epsilon, T* dx) {
    for (std::size_t t = 0; t < G::tokens; ++t)
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            auto const at = t * G::width * Lanes + lane;
            detail::token_statistics<G, Lanes, T> const of(x + at, epsilon);
            T sum = 0, with_x = 0;
            for (std::size_t d = 0; d < G::width; ++d) {
                sum += w[d] * dy[at + d * Lanes];
                with_x += w[d] * dy[at + d * Lanes] * of.normalised(x[at + d * Lanes]);
            }
            sum /= static_cast<T>(G::width);
            with_x /= static_cast<T>(G::width);
            for (std::size_t d = 0; d < G::width; ++d) {
                auto const i = at + d * Lanes;
                dx[i] = of.deviation * (w[d] * dy[i] - sum - of.normalised(x[i]) * with_x);
            }
        }
}

/// dw += dy times the normalised x, db += dy, summed over tokens and lanes.
template<class G, std::size_t Lanes, class T>
void layer_norm_backward_weights(reference, T const* x, T const* dy, double epsilon, T* dw, T* db) {
    for (std::size_t t = 0; t < G::tokens; ++t)
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            auto const at = t * G::width * Lanes + lane;
            detail::token_statistics<G, Lanes, T> const of(x + at, epsilon);
            for (std::size_t d = 0; d < G::width; ++d) {
                dw[d] += dy[at + d * Lanes] * of.normalised(x[at + d * Lanes]);
                db[d] += dy[at + d * Lanes];
            }
        }
}

} // namespace trireme::inline TRIREME_ISA
