// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/reference/policy.hpp>
#include <trireme/kernels/reference/soft_cross_entropy.hpp>
#include <trireme/kernels/soft_targets.hpp>

#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

/// The number that a sample's loss is divided by: its tokens, unless the batch's is divided by the weights of all.
template<class Targets, class G, class T>
constexpr T token_loss_divisor() noexcept {
    return Targets::weighs ? T(1) : static_cast<T>(G::tokens);
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// loss = the sum over a sample's tokens of what soft_cross_entropy finds for each, the mean, if Targets weighs none;
/// likewise `correct`, always the sum. G: a token_geometry, whose width are the classes. x: Tokens x Width, labels:
/// Tokens; both times Lanes.
template<class Targets, class G, std::size_t Lanes, class T>
void token_soft_cross_entropy(reference k, T const* x, int const* labels, T* loss, int* correct) noexcept {
    T of_token[Lanes];
    int right[Lanes];
    for (std::size_t lane = 0; lane < Lanes; ++lane) loss[lane] = 0, correct[lane] = 0;
    for (std::size_t t = 0; t < G::tokens; ++t) {
        soft_cross_entropy<Targets, G::width, Lanes>(k, x + t * G::width * Lanes, labels + t * Lanes, of_token, right);
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            loss[lane] += of_token[lane] / detail::token_loss_divisor<Targets, G, T>();
            correct[lane] += right[lane];
        }
    }
}

/// The loss, and dx = its gradient times weight.
template<class Targets, class G, std::size_t Lanes, class T>
void token_soft_cross_entropy_gradient(reference k, T const* x, int const* labels, T const* weight, T* dx,
                                       T* loss) noexcept {
    constexpr T divisor = detail::token_loss_divisor<Targets, G, T>();
    T of_token[Lanes], factor[Lanes];
    for (std::size_t lane = 0; lane < Lanes; ++lane) loss[lane] = 0, factor[lane] = weight[lane] / divisor;
    for (std::size_t t = 0; t < G::tokens; ++t) {
        auto const at = t * G::width * Lanes;
        soft_cross_entropy_gradient<Targets, G::width, Lanes>(k, x + at, labels + t * Lanes, factor, dx + at, of_token);
        for (std::size_t lane = 0; lane < Lanes; ++lane) loss[lane] += of_token[lane] / divisor;
    }
}

} // namespace trireme::inline TRIREME_ISA
