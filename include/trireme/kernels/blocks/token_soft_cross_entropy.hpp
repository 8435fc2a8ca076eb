// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/soft_cross_entropy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/blocks/token_cross_entropy.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/soft_targets.hpp>

#include <cstddef>

namespace trireme {

/// loss = the sum over a sample's tokens of what soft_cross_entropy finds for each, the mean, if Targets weighs none;
/// likewise `correct`, always the sum. x: Tokens x Width per sample, labels: Tokens, loss, correct: one.
template<class Targets, class G, std::size_t Lanes, class Stream, class A, class T>
void token_soft_cross_entropy(block_kernels<Stream> const& k, A const* x, int const* labels, T* loss, int* correct) {
    constexpr auto tokens = static_cast<blocks::u32>(G::tokens), classes = static_cast<blocks::u32>(G::width);
    using program = blocks::soft_cross_entropy_program<Targets, classes, false, A, T, tokens>;
    T const* const weight = nullptr;
    A* const dx = nullptr;
    blocks::launch_token_losses<program, tokens, program::divisor>(k, x, labels, weight, dx, loss, correct);
}

/// The loss, and dx = its gradient times weight. dx may be x.
template<class Targets, class G, std::size_t Lanes, class Stream, class A, class T>
void token_soft_cross_entropy_gradient(block_kernels<Stream> const& k, A const* x, int const* labels, T const* weight,
                                       A* dx, T* loss) {
    constexpr auto tokens = static_cast<blocks::u32>(G::tokens), classes = static_cast<blocks::u32>(G::width);
    using program = blocks::soft_cross_entropy_program<Targets, classes, true, A, T, tokens>;
    blocks::launch_token_losses<program, tokens, program::divisor>(k, x, labels, weight, dx, loss, nullptr);
}

} // namespace trireme
