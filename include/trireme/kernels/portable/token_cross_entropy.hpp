// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/no_label.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/portable/token_soft_cross_entropy.hpp>
#include <trireme/kernels/soft_targets.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// The mean over a sample's tokens of log(sum exp(x)) - x[target]; and how many targets have the largest logit, the
/// first of equal ones. G: a token_geometry, whose width are the classes. x: Tokens x Width, targets: Tokens.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
void token_cross_entropy_loss(portable k, T const* x, int const* targets, T* loss, int* correct) noexcept {
    token_soft_cross_entropy<soft_targets<G::width, 0, void, no_label>, G, Lanes>(k, x, targets, loss, correct);
}

/// The loss, and dx = weight (softmax(x) - one_hot) / Tokens; dx may be x.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
void token_cross_entropy(portable k, T const* x, int const* targets, T const* weight, T* dx, T* loss) noexcept {
    token_soft_cross_entropy_gradient<soft_targets<G::width, 0, void, no_label>, G, Lanes>(k, x, targets, weight, dx,
                                                                                           loss);
}

} // namespace trireme::inline TRIREME_ISA
