// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/few_tokens/blocks.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/portable/tokens/reduction.hpp>

#include <cstddef>

// Layer normalisation of some samples together: that of one sample, by blocks of tokens.

namespace trireme::inline TRIREME_ISA {

template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
void layer_norm_forward(portable_together k, T const* x, T const* w, T const* b, double epsilon, T* y) noexcept {
    detail::for_blocks_of_tokens<detail::norm_tokens<T>>(
        k.together * G::tokens, [=]<std::size_t N>(block_length<N>, std::size_t t) {
            layer_norm_forward<token_geometry<N, G::width>, 1>(portable{k}, x + t * G::width, w, b, epsilon,
                                                               y + t * G::width);
        });
}

template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
void layer_norm_backward_input(portable_together k, T const* x, T const* dy, T const* w, double epsilon,
                               T* dx) noexcept {
    detail::for_blocks_of_tokens<detail::norm_tokens<T>>(
        k.together * G::tokens, [=]<std::size_t N>(block_length<N>, std::size_t t) {
            layer_norm_backward_input<token_geometry<N, G::width>, 1>(portable{k}, x + t * G::width, dy + t * G::width,
                                                                      w, epsilon, dx + t * G::width);
        });
}

template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
void layer_norm_backward_weights(portable_together k, T const* x, T const* dy, double epsilon, T* dw, T* db) noexcept {
    detail::for_blocks_of_tokens<detail::norm_tokens<T>>(
        k.together * G::tokens, [=]<std::size_t N>(block_length<N>, std::size_t t) {
            layer_norm_backward_weights<token_geometry<N, G::width>, 1>(portable{k}, x + t * G::width,
                                                                        dy + t * G::width, epsilon, dw, db);
        });
}

} // namespace trireme::inline TRIREME_ISA
