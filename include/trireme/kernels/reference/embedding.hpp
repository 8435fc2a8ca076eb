// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/reference/policy.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// y[t] = w[x[t]]. x: Tokens numbers in [0, Vocabulary), w: Vocabulary x Width, y: Tokens x Width; x and y times Lanes.
template<class G, std::size_t Lanes, class T>
void embedding_forward(reference, T const* x, T const* w, T* y) {
    for (std::size_t t = 0; t < G::tokens; ++t)
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            auto const id = static_cast<std::size_t>(x[t * Lanes + lane]);
            for (std::size_t d = 0; d < G::width; ++d) y[(t * G::width + d) * Lanes + lane] = w[id * G::width + d];
        }
}

/// dw[x[t]] += dy[t].
template<class G, std::size_t Lanes, class T>
void embedding_backward_weights(reference, T const* x, T const* dy, T* dw) {
    for (std::size_t lane = 0; lane < Lanes; ++lane)
        for (std::size_t t = 0; t < G::tokens; ++t) {
            auto const id = static_cast<std::size_t>(x[t * Lanes + lane]);
            for (std::size_t d = 0; d < G::width; ++d) dw[id * G::width + d] += dy[(t * G::width + d) * Lanes + lane];
        }
}

/// y = x + w. x, y: Tokens x Width times Lanes, w: Tokens x Width.
template<class G, std::size_t Lanes, class T>
void learned_positions_forward(reference, T const* x, T const* w, T* y) {
    for (std::size_t i = 0; i < G::tokens * G::width * Lanes; ++i) y[i] = x[i] + w[i / Lanes];
}

/// dw += dy, summed over the lanes.
template<class G, std::size_t Lanes, class T>
void learned_positions_backward_weights(reference, T const* dy, T* dw) {
    for (std::size_t i = 0; i < G::tokens * G::width * Lanes; ++i) dw[i / Lanes] += dy[i];
}

} // namespace trireme::inline TRIREME_ISA
