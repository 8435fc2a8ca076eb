// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/softmax_cross_entropy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/soft_targets.hpp>

#include <cmath>
#include <cstddef>

namespace trireme::blocks {

/// Block program of soft_cross_entropy: losses, and with `Gradient` dlogits, else whether the first largest logit is
/// the label's. As softmax_cross_entropy_program, but that each class has its share of the loss, and that the gradients
/// of a sample's tokens are those of the sum, if Targets weighs labels.
template<class Targets, u32 Classes, bool Gradient, class A, class T, u32 Tokens = 1>
struct soft_cross_entropy_program {
    using number = accumulate_t<T>;
    using team = logits_team<Classes>;
    static constexpr u32 width = team::width, threads = team::threads;
    static constexpr u32 divisor = Targets::weighs ? 1 : Tokens;
    struct shared {
        candidate<number> largest[threads];
        number sum[threads], spread[threads];
    };
    using own = nothing_kept;

    A const* logits;
    int const* labels;
    T const* weight;
    A* dlogits;
    T* loss;
    int* correct;
    std::size_t rows;

    TRIREME_HOST_DEVICE int phases() const { return 3; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        u32 const part = at.thread % width, first = at.thread - part;
        std::size_t const row = std::size_t{at.block} * team::rows_of_block + at.thread / width;
        if (row >= rows) return;
        A const* const x = logits + row * Classes;
        if (k == 0) {
            candidate<number> best{static_cast<number>(x[part]), part};
            for (u32 c = part + width; c < Classes; c += width) best.meet(static_cast<number>(x[c]), c);
            s.largest[at.thread] = best;
            return;
        }
        candidate<number> best = s.largest[first];
        for (u32 i = 1; i < width; ++i) best.meet(s.largest[first + i].value, s.largest[first + i].place);
        if (k == 1) {
            number sum = 0, spread = 0;
            for (u32 c = part; c < Classes; c += width) {
                number const apart = static_cast<number>(x[c]) - best.value;
                sum += std::exp(apart);
                if constexpr (Targets::spreads) spread += apart * Targets::template weight<number>(c);
            }
            s.sum[at.thread] = sum;
            s.spread[at.thread] = spread;
            return;
        }
        number sum = s.sum[first], spread = s.spread[first];
        for (u32 i = 1; i < width; ++i) {
            sum += s.sum[first + i];
            spread += s.spread[first + i];
        }
        int const label = labels[row];
        bool const counts = Targets::counts(label);
        number const of_label = counts ? Targets::template share<number>(label) : number(0);
        number const all = counts ? Targets::template all_shares<number>(label) : number(0);
        constexpr number each = static_cast<number>(Targets::of_each);
        if (part == static_cast<u32>(label) % width) { // which overwrites the label's logit
            loss[row] = T(0);
            if (counts)
                loss[row] = static_cast<T>(all * std::log(sum) - each * spread -
                                           of_label * (static_cast<number>(x[label]) - best.value));
            if constexpr (!Gradient)
                correct[row] = Targets::is_scored(label) && best.place == static_cast<u32>(label) ? 1 : 0;
        }
        if constexpr (Gradient) {
            number const scale =
                counts ? static_cast<number>(weight[row / Tokens]) / static_cast<number>(divisor) : number(0);
            for (u32 c = part; c < Classes; c += width) {
                number const softmax = std::exp(static_cast<number>(x[c]) - best.value) / sum;
                number q = each * Targets::template weight<number>(c);
                if (counts && c == static_cast<u32>(label)) q += of_label;
                dlogits[row * Classes + c] = static_cast<A>(counts ? scale * (all * softmax - q) : number(0));
            }
        }
    }

    u32 blocks() const noexcept { return team::blocks(rows); }
};

} // namespace trireme::blocks

namespace trireme {

/// loss = -sum of q log softmax(logits) over the classes, and dlogits = weight * (sum of q * softmax(logits) - q),
/// where Targets says q of each label; both 0 for a label that does not count. logits, dlogits: Classes per sample;
/// labels, weight, loss: one. The loss is not multiplied by `weight`.
template<class Targets, std::size_t Classes, std::size_t Lanes, class Stream, class A, class T>
void soft_cross_entropy_gradient(block_kernels<Stream> const& k, A const* logits, int const* labels, T const* weight,
                                 A* dlogits, T* loss) {
    blocks::soft_cross_entropy_program<Targets, static_cast<blocks::u32>(Classes), true, A, T> const program{
        logits, labels, weight, dlogits, loss, nullptr, k.samples()};
    if (k.samples() != 0) k.queue().launch(program, program.blocks());
}

/// The loss as above, and correct = 1 where the first largest logit is that of a label that counts and has a weight. A
/// NaN counts as the largest.
template<class Targets, std::size_t Classes, std::size_t Lanes, class Stream, class A, class T>
void soft_cross_entropy(block_kernels<Stream> const& k, A const* logits, int const* labels, T* loss, int* correct) {
    blocks::soft_cross_entropy_program<Targets, static_cast<blocks::u32>(Classes), false, A, T> const program{
        logits, labels, nullptr, nullptr, loss, correct, k.samples()};
    if (k.samples() != 0) k.queue().launch(program, program.blocks());
}

} // namespace trireme
