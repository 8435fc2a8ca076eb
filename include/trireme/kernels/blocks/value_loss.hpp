// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/loss_functions.hpp>

#include <cstddef>

namespace trireme::blocks {

/// Block program of value_loss: the mean of F over each sample's values, and with `Gradient` its gradient. `width`
/// threads share a sample; a sample of few values has one thread, which waits for no other. Without `Gradient`, of
/// logits: also the number of right answers, unless `correct` is null.
template<class F, u32 Values, bool Gradient, class A, class T>
struct value_loss_program {
    using number = accumulate_t<T>;
    static constexpr u32 width = Values <= 32 ? 1 : 32, samples_of_block = width == 1 ? 64 : 4;
    static constexpr u32 threads = width * samples_of_block;
    static constexpr bool counts = !Gradient && is_of_logits<F>;
    struct shared {
        number sum[threads];
        int right[counts ? threads : 1];
    };
    using own = nothing_kept;

    A const* x;
    T const* targets;
    T const* weight;
    A* dx;
    T* loss;
    std::size_t samples;
    int* correct = nullptr;

    TRIREME_HOST_DEVICE int phases() const { return 2; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        u32 const part = at.thread % width;
        std::size_t const sample = std::size_t{at.block} * samples_of_block + at.thread / width;
        if (sample >= samples) return;
        if (k == 0) {
            number sum = 0;
            [[maybe_unused]] int right = 0;
            for (u32 i = part; i < Values; i += width) {
                std::size_t const place = sample * Values + i;
                auto const value = static_cast<number>(x[place]), target = static_cast<number>(targets[place]);
                sum += F::value(value, target);
                if constexpr (counts) right += says_label(value, target) ? 1 : 0;
                if constexpr (Gradient)
                    dx[place] =
                        static_cast<A>(static_cast<number>(weight[sample]) / number(Values) * F::slope(value, target));
            }
            s.sum[at.thread] = sum;
            if constexpr (counts) s.right[at.thread] = right;
        } else if (part == 0) {
            number sum = 0;
            for (u32 i = 0; i < width; ++i) sum += s.sum[at.thread + i];
            loss[sample] = static_cast<T>(sum / number(Values));
            if constexpr (counts) {
                int right = 0;
                for (u32 i = 0; i < width; ++i) right += s.right[at.thread + i];
                if (correct != nullptr) correct[sample] = right;
            }
        }
    }

    u32 blocks() const noexcept { return static_cast<u32>((samples + samples_of_block - 1) / samples_of_block); }
};

} // namespace trireme::blocks

namespace trireme {

/// loss = the mean of F over a sample's values, and dx = weight / Values * F'. x, targets, dx: Values per sample;
/// weight, loss: one. The loss is not weighted.
template<class F, std::size_t Values, std::size_t Lanes, class Stream, class A, class T>
void value_loss_gradient(block_kernels<Stream> const& k, A const* x, T const* targets, T const* weight, A* dx,
                         T* loss) {
    blocks::value_loss_program<F, static_cast<blocks::u32>(Values), true, A, T> const program{x,  targets, weight,
                                                                                              dx, loss,    k.samples()};
    if (k.samples() != 0) k.queue().launch(program, program.blocks());
}

/// The loss as above; of logits also the number of a sample's right answers, unless `correct` is null.
template<class F, std::size_t Values, std::size_t Lanes, class Stream, class A, class T>
void value_loss(block_kernels<Stream> const& k, A const* x, T const* targets, T* loss, int* correct = nullptr) {
    blocks::value_loss_program<F, static_cast<blocks::u32>(Values), false, A, T> const program{
        x, targets, nullptr, nullptr, loss, k.samples(), correct};
    if (k.samples() != 0) k.queue().launch(program, program.blocks());
}

} // namespace trireme
