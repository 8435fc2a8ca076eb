// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/blocks/channels.hpp>
#include <trireme/kernels/blocks/elementwise.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <cstddef>
#include <type_traits>

// The bias of layers whose products a library computes.
namespace trireme::blocks {

/// y = Function(y + b), for values of channels; b may be null. G: a channel_geometry.
template<class Function, class G, class T>
struct bias_and_function {
    using value = T;
    using number = accumulate_t<T>;
    using geometry = G;
    using coefficients = number; ///< the bias
    static constexpr u32 inputs = 1;
    T const* from[inputs]; ///< y
    T* to;
    T const* b;

    template<u32 N>
    TRIREME_HOST_DEVICE void find(coefficients (&of)[N], std::size_t channel) const {
        for (number& bias : of) bias = 0;
        if (b == nullptr) return;
        numbers_of_channels<N, T> const biases(b + channel);
        for (u32 i = 0; i < N; ++i) of[i] = biases.of[i];
    }
    TRIREME_HOST_DEVICE number operator()(number const (&in)[inputs], coefficients bias, std::size_t, u32) const {
        return Function::value(in[0] + bias);
    }
};

/// db += dy, summed over samples of one value per channel. A block adds up 32 channels, whose values lie side by side;
/// each thread a part, and then half of the threads what the other half has.
template<u32 Channels, class T>
struct bias_gradient {
    using number = accumulate_t<T>;
    static constexpr u32 columns = 32, rows = 8, threads = columns * rows;
    static constexpr int halvings = 3, phase_count = 1 + halvings;
    static_assert(1u << halvings == rows);
    struct shared {
        number part[threads];
    };
    using own = nothing_kept;

    T const* dy;
    T* db;
    std::size_t samples;
    bool is_new;

    static constexpr u32 blocks() noexcept { return divide_up(Channels, columns); }
    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        u32 const channel = at.block * columns + at.thread % columns;
        u32 const row = at.thread / columns, left = rows >> k;
        if (channel >= Channels) return;
        if (k == 0) {
            number part = 0;
            for (std::size_t i = row; i < samples; i += rows) part += static_cast<number>(dy[i * Channels + channel]);
            s.part[at.thread] = part;
            return;
        }
        if (row >= left) return;
        number const sum = s.part[at.thread] + s.part[at.thread + left * columns];
        s.part[at.thread] = sum;
        if (left == 1) give_gradient(db[channel], sum, is_new);
    }
};

/// y = F(y + b), each channel's; without a bias b is null. G: a channel_geometry.
template<class F, class G, class Stream, class T>
void add_bias(block_kernels<Stream> const& k, T const* b, T* y) {
    if (b != nullptr || !std::is_same_v<F, identity_function>)
        each_value(k, channel_values<G>(k), bias_and_function<F, G, T>{{y}, y, b});
}

/// db += dy, summed over samples and positions; nothing if db is null.
template<class G, class Stream, class T>
void add_bias_gradient(block_kernels<Stream> const& k, T const* dy, T* db) {
    if (db == nullptr) return;
    if constexpr (G::channels_last || G::positions > 1) { // many blocks share a channel
        add_channel_sums<G>(k, dy, db);
    } else {
        bias_gradient<G::channels, T> const program{dy, db, k.samples(), k.gradients_are_new()};
        k.queue().launch(program, program.blocks());
    }
}

} // namespace trireme::blocks
