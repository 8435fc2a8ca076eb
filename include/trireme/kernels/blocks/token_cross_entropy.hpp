// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/softmax_cross_entropy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/geometry.hpp>

#include <cstddef>

namespace trireme::blocks {

/// Tokens add their losses and right answers to the score of their sample.
template<class N>
struct token_score {
    N loss;
    int correct;

    TRIREME_HOST_DEVICE void operator+=(token_score const& other) {
        loss += other.loss;
        correct += other.correct;
    }
};

/// A block adds the losses of one sample's tokens, divides the sum, and counts the right tokens. Every thread adds
/// every 256th token, and then half of the threads the sums of the other half.
template<u32 Tokens, u32 Divisor, class T>
struct token_scores_program {
    using number = accumulate_t<T>;
    using halved = halved_sum<token_score<number>>;
    static constexpr u32 threads = halved::threads;
    static constexpr int phase_count = 1 + halved::halvings;
    using shared = typename halved::shared;
    using own = nothing_kept;

    T const* losses;
    int const* right; ///< null: nobody wants to know
    T* loss;
    int* correct;

    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        if (k == 0) {
            token_score<number> part{0, 0};
            for (u32 t = at.thread; t < Tokens; t += threads) {
                std::size_t const row = std::size_t{at.block} * Tokens + t;
                part += {static_cast<number>(losses[row]), right == nullptr ? 0 : right[row]};
            }
            s.part[at.thread] = part;
            return;
        }
        if (!halved::add(k, at, s)) return;
        loss[at.block] = static_cast<T>(s.part[0].loss / static_cast<number>(Divisor));
        if (right != nullptr) correct[at.block] = s.part[0].correct;
    }
};

/// `Rows`, a program, computes the rows of all samples, and another one the samples: losses of rows go through the
/// workspace. Without dx, `correct` is wanted.
template<class Rows, u32 Tokens, u32 Divisor, class Stream, class A, class T>
void launch_token_losses(block_kernels<Stream> const& k, A const* x, int const* targets, T const* weight, A* dx,
                         T* loss, int* correct) {
    if (k.samples() == 0) return;
    struct of_row {
        T loss;
        int right;
    };
    std::size_t const rows = k.samples() * Tokens;
    auto* const losses = reinterpret_cast<T*>(workspace_for<of_row>(k, rows, "cross_entropy of", rows, "tokens"));
    auto* const right = correct == nullptr ? nullptr : reinterpret_cast<int*>(losses + rows);
    Rows const of_rows{x, targets, weight, dx, losses, right, rows};
    k.queue().launch(of_rows, of_rows.blocks());
    k.queue().launch(token_scores_program<Tokens, Divisor, T>{losses, right, loss, correct},
                     static_cast<u32>(k.samples()));
}

} // namespace trireme::blocks

namespace trireme {

/// The loss, and dx = weight (softmax(x) - one_hot) / Tokens. x, dx: Tokens x Width per sample, targets: Tokens,
/// weight, loss: one. dx may be x. The loss is the mean over the sample's tokens; it is not weighted.
template<class G, std::size_t Lanes, class Stream, class A, class T>
void token_cross_entropy(block_kernels<Stream> const& k, A const* x, int const* targets, T const* weight, A* dx,
                         T* loss) {
    constexpr auto tokens = static_cast<blocks::u32>(G::tokens), classes = static_cast<blocks::u32>(G::width);
    using program = blocks::cross_entropy_program<classes, true, A, T, tokens>;
    blocks::launch_token_losses<program, tokens, tokens>(k, x, targets, weight, dx, loss, nullptr);
}

/// The loss as above, and how many targets have the largest logit, the first of equal ones. A NaN counts as the
/// largest.
template<class G, std::size_t Lanes, class Stream, class A, class T>
void token_cross_entropy_loss(block_kernels<Stream> const& k, A const* x, int const* targets, T* loss, int* correct) {
    constexpr auto tokens = static_cast<blocks::u32>(G::tokens), classes = static_cast<blocks::u32>(G::width);
    using program = blocks::cross_entropy_program<classes, false, A, T, tokens>;
    T const* const weight = nullptr;
    A* const dx = nullptr;
    blocks::launch_token_losses<program, tokens, tokens>(k, x, targets, weight, dx, loss, correct);
}

} // namespace trireme
