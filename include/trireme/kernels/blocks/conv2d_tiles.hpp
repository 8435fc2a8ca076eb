// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/geometry.hpp>

#include <cstddef>
#include <cstdint>

// Tiles of images in shared memory, which the programs of conv2d compute with.
namespace trireme::blocks {

/// The order in memory of an image's values, or of a kernel's weights, whose positions are its taps.
template<bool ChannelsLast, u32 Channels, u32 Positions>
struct image_order {
    static constexpr u32 next_channel = ChannelsLast ? 1 : Positions, next_position = ChannelsLast ? Channels : 1;
    static constexpr bool rows_lie_together = next_position == 1;

    TRIREME_HOST_DEVICE static constexpr u32 place(u32 channel, u32 position) {
        return channel * next_channel + position * next_position;
    }
    /// Of the images, or kernels, that lie one behind the other.
    TRIREME_HOST_DEVICE static constexpr std::size_t place(std::size_t image, u32 channel, u32 position) {
        return image * (Channels * Positions) + place(channel, position);
    }
};

/// The convolution that forward computes.
template<class G>
struct conv2d_forward_pass {
    static constexpr bool flipped = false;
    static constexpr bool channels_last = G::channels_last;
    static constexpr u32 in_channels = G::channels, in_height = G::height, in_width = G::width;
    static constexpr u32 out_channels = G::out_channels, out_height = G::out_height, out_width = G::out_width;
    static constexpr u32 kernel = G::kernel, stride = G::stride, spread = 1;
    static constexpr int padding = static_cast<int>(G::padding);
};

/// The convolution that backward_input computes: dy, spread out with zeros where the stride has skipped, with the
/// flipped kernel.
template<class G>
struct conv2d_backward_pass {
    static constexpr bool flipped = true;
    static constexpr bool channels_last = G::channels_last;
    static constexpr u32 in_channels = G::out_channels, in_height = G::out_height, in_width = G::out_width;
    static constexpr u32 out_channels = G::channels, out_height = G::height, out_width = G::width;
    static constexpr u32 kernel = G::kernel, stride = 1, spread = G::stride;
    static constexpr int padding = static_cast<int>(G::kernel) - 1 - static_cast<int>(G::padding);
};

/// A row of the kernel, as it is computed with: pieces of at most 8 numbers, which fit into registers.
template<u32 Kernel, u32 Stride>
struct kernel_row {
    static constexpr u32 piece = Kernel <= 8 ? Kernel : 8, pieces = divide_up(Kernel, piece);
    static constexpr u32 quads_of_window = divide_up(3 * Stride + piece, 4);
    /// Quads of a row of input that rows of `quads` outputs look at.
    static constexpr u32 input_quads(u32 quads) noexcept {
        return Stride * (quads - 1) + (pieces - 1) * piece / 4 + quads_of_window;
    }
};

/// The inputs of four neighbouring outputs under a piece of the kernel's row, in registers.
template<u32 Stride, u32 Piece, class A>
struct conv2d_window {
    static constexpr bool overlapping = Stride < Piece;
    static constexpr u32 quads = divide_up(3 * Stride + Piece, 4);
    A value[overlapping ? 4 * quads : 4 * Piece];

    TRIREME_HOST_DEVICE explicit conv2d_window(quad<A> const* from) {
        if constexpr (overlapping) {
            for (u32 i = 0; i < quads; ++i) {
                quad<A> const q = from[i];
                for (u32 j = 0; j < 4; ++j) value[4 * i + j] = q.v[j];
            }
        } else {
            for (u32 i = 0; i < 4; ++i)
                for (u32 j = 0; j < Piece; ++j)
                    value[i * Piece + j] = from[(i * Stride + j) / 4].v[(i * Stride + j) % 4];
        }
    }
    TRIREME_HOST_DEVICE A at(u32 output, u32 tap) const { return value[output * (overlapping ? Stride : Piece) + tap]; }
};

/// One column of a tile of Rows rows of several channels, to be copied from an image; zeros around the image, and
/// between its rows and columns if it is spread.
template<class Order, u32 Height, u32 Width, u32 Spread, u32 Rows, u32 Pitch, class T>
struct tile_column_copy {
    using value = accumulate_t<T>;
    T const* from; ///< the first channel
    quad<value>* to;
    u32 channels; ///< that there are
    int first_row, column;
    u32 tile_column;

    TRIREME_HOST_DEVICE value load(u32 i) const {
        u32 const channel = i / Rows;
        // above and left of the image it wraps, and is larger than any size
        auto const row = static_cast<u32>(first_row + static_cast<int>(i - channel * Rows));
        auto const x = static_cast<u32>(column);
        bool const inside = channel < channels && row < Height * Spread && x < Width * Spread;
        if (!inside || row % Spread != 0 || x % Spread != 0) return 0;
        return static_cast<value>(from[Order::place(channel, row / Spread * Width + x / Spread)]);
    }
    TRIREME_HOST_DEVICE void store(u32 i, value v) const { to[i * Pitch + tile_column / 4].v[tile_column % 4] = v; }
};

/// Copies a tile whose first place is (row, column) of the image, which may be outside. Neighbouring threads read
/// neighbouring columns.
template<class Order, u32 Height, u32 Width, u32 Spread, u32 Channels, u32 Rows, u32 Pitch, u32 Threads, class T>
TRIREME_HOST_DEVICE void copy_tile(T const* from, u32 channels, int row, int column, quad<accumulate_t<T>>* to,
                                   u32 thread) {
    constexpr u32 wide = 4 * Pitch < Threads ? 4 * Pitch : Threads, high = Threads / wide;
    if (thread >= wide * high) return;
    for (u32 x = thread % wide; x < 4 * Pitch; x += wide) {
        tile_column_copy<Order, Height, Width, Spread, Rows, Pitch, T> const copy{
            from, to, channels, row, column + static_cast<int>(x), x};
        copy_in_batches(copy, thread / wide, high, Channels * Rows);
    }
}

} // namespace trireme::blocks
