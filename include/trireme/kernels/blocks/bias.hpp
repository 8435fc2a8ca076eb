// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/blocks/channels.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>

#include <cstddef>
#include <type_traits>

// The bias of layers whose products a library computes.
namespace trireme::blocks {

/// y = Function(y + b), for values of channels; b may be null. G: a channel_geometry.
template<class Function, class G, class T>
struct bias_and_function {
    T const* b;
    T* y;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        using number = accumulate_t<T>;
        auto const bias = b == nullptr ? number(0) : static_cast<number>(b[channel_of_value<G>(i).channel]);
        y[i] = static_cast<T>(Function::value(static_cast<number>(y[i]) + bias));
    }
};

/// db += dy, summed over samples and pixels. A block adds up one channel, or 32 whose values lie side by side; each
/// thread a part, and then half of the threads what the other half has.
template<std::size_t Channels, std::size_t Pixels, class T>
struct bias_gradient {
    using number = accumulate_t<T>;
    static constexpr u32 columns = Pixels == 1 ? 32 : 1, rows = Pixels == 1 ? 8 : 512;
    static constexpr u32 threads = columns * rows;
    static constexpr int halvings = Pixels == 1 ? 3 : 9;
    static_assert(1u << halvings == rows);
    static constexpr int phase_count = 1 + halvings;
    struct shared {
        number part[threads];
    };
    using own = nothing_kept;

    T const* dy;
    T* db;
    std::size_t samples;

    static constexpr u32 blocks() noexcept { return static_cast<u32>((Channels + columns - 1) / columns); }
    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        std::size_t const channel = std::size_t{at.block} * columns + at.thread % columns;
        u32 const row = at.thread / columns, left = rows >> k;
        if (channel >= Channels) return;
        if (k == 0) {
            number part = 0;
            for (std::size_t i = row; i < samples * Pixels; i += rows)
                part += static_cast<number>(dy[(i / Pixels * Channels + channel) * Pixels + i % Pixels]);
            s.part[at.thread] = part;
            return;
        }
        if (row >= left) return;
        number const sum = s.part[at.thread] + s.part[at.thread + left * columns];
        s.part[at.thread] = sum;
        if (left == 1) db[channel] = static_cast<T>(static_cast<number>(db[channel]) + sum);
    }
};

/// y = F(y + b), each channel's; without a bias b is null. G: a channel_geometry.
template<class F, class G, class Stream, class T>
void add_bias(block_kernels<Stream> const& k, T const* b, T* y) {
    if (b != nullptr || !std::is_same_v<F, identity_function>)
        k.each(channel_values<G>(k), bias_and_function<F, G, T>{b, y});
}

/// db += dy, summed over samples and positions; nothing if db is null.
template<class G, class Stream, class T>
void add_bias_gradient(block_kernels<Stream> const& k, T const* dy, T* db) {
    if (db == nullptr) return;
    if constexpr (G::channels_last) {
        add_channel_sums<G>(k, dy, db);
    } else {
        bias_gradient<G::channels, G::positions, T> const program{dy, db, k.samples()};
        k.queue().launch(program, program.blocks());
    }
}

} // namespace trireme::blocks
