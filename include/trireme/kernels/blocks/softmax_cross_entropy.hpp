// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/candidate.hpp>
#include <trireme/kernels/blocks/many_classes.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace trireme::blocks {

/// A team of `width` threads does a row of logits: one thread if there are few classes, so that nobody waits.
template<u32 Classes>
struct logits_team {
    static constexpr u32 width = Classes <= 32 ? 1 : Classes <= 4096 ? 32 : 128;
    static constexpr u32 rows_of_block = width == 1 ? 64 : 128 / width;
    static constexpr u32 threads = width * rows_of_block;

    static u32 blocks(std::size_t rows) noexcept {
        return static_cast<u32>((rows + rows_of_block - 1) / rows_of_block);
    }
};

/// Losses, and with `Gradient` dlogits, else whether the first largest logit is the label's, of rows of logits: a
/// sample has one, or one for each of its tokens, which share the sample's weight. Reads the logits two or three times,
/// from the cache. dlogits may be the logits.
template<u32 Classes, bool Gradient, class A, class T, u32 Tokens>
struct softmax_cross_entropy_program {
    using number = accumulate_t<T>;
    using team = logits_team<Classes>;
    static constexpr u32 width = team::width, threads = team::threads;
    struct shared {
        candidate<number> largest[threads];
        number sum[threads];
    };
    using own = nothing_kept;

    A const* logits;
    int const* labels;
    T const* weight;
    A* dlogits;
    T* loss;
    int* correct;
    std::size_t rows;

    struct gradients {
        using value = number;
        A const* x;
        A* dx;
        number largest, sum, scale;
        u32 label;
        TRIREME_HOST_DEVICE number load(u32 c) const { return static_cast<number>(x[c]); }
        TRIREME_HOST_DEVICE void store(u32 c, number logit) const {
            number const softmax = std::exp(logit - largest) / sum;
            dx[c] = static_cast<A>(scale * (softmax - (c == label ? number(1) : number(0))));
        }
    };

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
            number sum = 0;
            for (u32 c = part; c < Classes; c += width) sum += std::exp(static_cast<number>(x[c]) - best.value);
            s.sum[at.thread] = sum;
            return;
        }
        number sum = s.sum[first];
        for (u32 i = 1; i < width; ++i) sum += s.sum[first + i];
        auto const label = static_cast<u32>(labels[row]);
        if (part == label % width) { // which overwrites the label's logit
            loss[row] = static_cast<T>(std::log(sum) - (static_cast<number>(x[label]) - best.value));
            if constexpr (!Gradient) correct[row] = best.place == label ? 1 : 0;
        }
        if constexpr (Gradient) {
            auto const scale = static_cast<number>(weight[row / Tokens]) / static_cast<number>(Tokens);
            copy_in_batches(gradients{x, dlogits + row * Classes, best.value, sum, scale, label}, part, width, Classes);
        }
    }

    u32 blocks() const noexcept { return team::blocks(rows); }
};

/// The program for so many classes.
template<u32 Classes, bool Gradient, class A, class T, u32 Tokens = 1>
using cross_entropy_program =
    std::conditional_t<(Classes > 4096), many_classes_program<Classes, Gradient, A, T, Tokens>,
                       softmax_cross_entropy_program<Classes, Gradient, A, T, Tokens>>;

} // namespace trireme::blocks

namespace trireme {

/// loss = -log softmax(logits)[label], and dlogits = weight * (softmax(logits) - onehot(label)).
/// logits, dlogits: Classes per sample; labels (0 <= label < Classes), weight, loss: one.
/// The loss is not weighted. The largest logit is subtracted first, so no exponential overflows.
template<std::size_t Classes, std::size_t Lanes, class Stream, class A, class T>
void softmax_cross_entropy(block_kernels<Stream> const& k, A const* logits, int const* labels, T const* weight,
                           A* dlogits, T* loss) {
    blocks::cross_entropy_program<static_cast<blocks::u32>(Classes), true, A, T> const program{
        logits, labels, weight, dlogits, loss, nullptr, k.samples()};
    if (k.samples() != 0) k.queue().launch(program, program.blocks());
}

/// The loss as above, and correct = 1 where the first largest logit is the label's. A NaN counts as the largest.
template<std::size_t Classes, std::size_t Lanes, class Stream, class A, class T>
void softmax_cross_entropy_loss(block_kernels<Stream> const& k, A const* logits, int const* labels, T* loss,
                                int* correct) {
    blocks::cross_entropy_program<static_cast<blocks::u32>(Classes), false, A, T> const program{
        logits, labels, nullptr, nullptr, loss, correct, k.samples()};
    if (k.samples() != 0) k.queue().launch(program, program.blocks());
}

} // namespace trireme
