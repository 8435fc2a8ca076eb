// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/elementwise.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <cstddef>

namespace trireme::blocks {

/// Block program of activity_penalty_forward: a block adds the squares of one sample's values.
template<u32 Size, class A, class T>
struct activity_penalty_program {
    using number = accumulate_t<T>;
    struct square_sum {
        number of;
        TRIREME_HOST_DEVICE void operator+=(square_sum const& other) { of += other.of; }
    };
    using halved = halved_sum<square_sum>;
    static constexpr u32 threads = halved::threads;
    using shared = typename halved::shared;
    using own = nothing_kept;

    A const* x;
    number share;
    A* y;
    T* loss;

    TRIREME_HOST_DEVICE int phases() const { return 1 + halved::halvings; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        if (k == 0) {
            square_sum part{0};
            for (u32 i = at.thread; i < Size; i += threads) {
                std::size_t const place = std::size_t{at.block} * Size + i;
                A const stored = x[place];
                auto const value = static_cast<number>(stored);
                part.of += value * value;
                y[place] = stored;
            }
            s.part[at.thread] = part;
            return;
        }
        if (halved::add(k, at, s)) loss[at.block] = static_cast<T>(share / number(Size) * s.part[0].of);
    }
};

/// A value's gradient, with the slope of the penalty.
template<u32 Size, class A, class T>
struct penalised_gradient {
    using value = A;
    using number = accumulate_t<A>;
    using geometry = without_channels;
    using coefficients = nothing_kept;
    static constexpr u32 inputs = 2;
    A const* from[inputs]; ///< x, dy
    A* to;
    T const* weight;
    number slope;
    TRIREME_HOST_DEVICE number operator()(number const (&in)[inputs], coefficients const&, std::size_t first,
                                          u32 j) const {
        number const factor = static_cast<number>(weight[(first + j) / Size]) * slope;
        return in[1] + factor * in[0];
    }
};

} // namespace trireme::blocks

namespace trireme {

/// y = x, and loss = share times the mean of the squares of a sample's values, unless loss is null. x, y: Size per
/// sample; loss: one. y may be x.
template<std::size_t Size, std::size_t, class Stream, class A, class T>
void activity_penalty_forward(block_kernels<Stream> const& k, A const* x, T share, A* y, T* loss) {
    using program = blocks::activity_penalty_program<static_cast<blocks::u32>(Size), A, T>;
    if (k.samples() == 0) return;
    if (loss == nullptr)
        activation_forward<identity_function>(k, x, y, Size);
    else
        k.queue().launch(program{x, static_cast<typename program::number>(share), y, loss},
                         static_cast<blocks::u32>(k.samples()));
}

/// dx = dy + weight times the slope of the penalty. x, dy, dx: Size per sample; weight: one. dx may be dy.
template<std::size_t Size, std::size_t, class Stream, class A, class T>
void activity_penalty_backward_input(block_kernels<Stream> const& k, A const* x, A const* dy, T const* weight, T share,
                                     A* dx) {
    using each = blocks::penalised_gradient<static_cast<blocks::u32>(Size), A, T>;
    auto const slope = static_cast<typename each::number>(2 * share / T(Size));
    blocks::each_value(k, Size * k.samples(), each{{x, dy}, dx, weight, slope});
}

} // namespace trireme
