// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/add.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <cstddef>
#include <cstring>

namespace trireme::inline TRIREME_ISA {

/// y[t] = w[x[t]]. x: Tokens numbers in [0, Vocabulary), w: Vocabulary x Width, y: Tokens x Width.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void embedding_forward(portable, T const* x, T const* w, T* y) noexcept {
    for (std::size_t t = 0; t < G::tokens; ++t)
        std::memcpy(y + t * G::width, w + static_cast<std::size_t>(x[t]) * G::width, G::width * sizeof(T));
}

/// dw[x[t]] += dy[t], in the order of the tokens.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void embedding_backward_weights(portable, T const* x, T const* dy, T* dw) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for (std::size_t t = 0; t < G::tokens; ++t) {
        T* const to = dw + static_cast<std::size_t>(x[t]) * G::width;
        T const* const from = dy + t * G::width;
        for_registers<vector>(G::width, [=](std::size_t i, auto count) {
            (vector::load(to + i, count) + vector::load(from + i, count)).store(to + i, count);
        });
    }
}

/// y = x + w. x, w, y: Tokens x Width.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
void learned_positions_forward(portable k, T const* x, T const* w, T* y) noexcept {
    add_values(k, x, w, y, G::tokens * G::width);
}

/// dw += dy
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
void learned_positions_backward_weights(portable k, T const* dy, T* dw) noexcept {
    add_values(k, dy, static_cast<T const*>(dw), dw, G::tokens * G::width);
}

} // namespace trireme::inline TRIREME_ISA
