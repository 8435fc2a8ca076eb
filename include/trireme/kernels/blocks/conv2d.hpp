// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/geometry.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

// Three kernels, two programs: the gradient by the input is a convolution as well. Both keep tiles of images in shared
// memory, one row of four numbers (a quad) behind the other, and compute with four neighbours of a row at a time.
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

// ---- forward and backward_input ----

/// The division of a convolution among blocks and threads. A thread computes a quad of neighbouring outputs in `outs`
/// channels; a block `quads` x `rows` of these, of `groups` groups of channels, adding chunks of `channels` input
/// channels and `kernel_rows` rows.
struct conv2d_cut {
    u32 outs, quads, rows, groups, channels, kernel_rows;
};

template<class Pass>
struct conv2d_cutter {
    using row = kernel_row<Pass::kernel, Pass::stride>;
    static constexpr u32 most_threads = 256, enough_threads = 96;

    static constexpr u32 input_rows(conv2d_cut c) noexcept { return (c.rows - 1) * Pass::stride + c.kernel_rows; }
    static constexpr u32 input_quads(conv2d_cut c) noexcept {
        return c.channels * input_rows(c) * row::input_quads(c.quads);
    }
    /// Quads of the weights of one tap; odd, so that the taps of a channel lie in different banks.
    static constexpr u32 weight_pitch(conv2d_cut c) noexcept { return c.groups * divide_up(c.outs, 4) | 1; }
    static constexpr u32 weight_quads(conv2d_cut c) noexcept {
        return c.channels * c.kernel_rows * Pass::kernel * weight_pitch(c);
    }

    static constexpr conv2d_cut cut(std::size_t bytes_of_quad) noexcept {
        conv2d_cut c{1, least(divide_up(Pass::out_width, 4), 32), 0, 0, Pass::in_channels, Pass::kernel};
        c.rows = least(Pass::out_height, most_threads / c.quads);
        // many channels per thread save reads, few make enough threads; none should be computed for nothing
        for (u32 outs = 2; outs <= 6; ++outs) {
            u32 const groups = divide_up(Pass::out_channels, outs);
            if (8 * groups * outs <= 9 * Pass::out_channels && c.quads * c.rows * groups >= enough_threads)
                c.outs = outs;
        }
        c.groups = least(divide_up(Pass::out_channels, c.outs), most_threads / (c.quads * c.rows));
        for (u32* most : {&c.channels, &c.rows, &c.groups, &c.quads, &c.kernel_rows})
            while ((input_quads(c) + weight_quads(c)) * bytes_of_quad > most_shared_bytes && *most > 1)
                *most = divide_up(*most, 2);
        c.rows = evened(Pass::out_height, c.rows);
        c.groups = evened(divide_up(Pass::out_channels, c.outs), c.groups);
        c.channels = evened(Pass::in_channels, c.channels);
        return c;
    }
};

/// A convolution. Reads the input once per tile (a whole image, if it is small) and group of channels, and the weights
/// once per tile; writes the output once.
template<class Pass, class End, class T>
struct conv2d_program {
    using number = accumulate_t<T>;
    using cutter = conv2d_cutter<Pass>;
    using row = kernel_row<Pass::kernel, Pass::stride>;
    static constexpr conv2d_cut cut = cutter::cut(sizeof(quad<number>));
    static constexpr u32 outs = cut.outs, quads = cut.quads, rows = cut.rows, groups = cut.groups;
    static constexpr u32 channels = cut.channels, kernel_rows = cut.kernel_rows, kernel = Pass::kernel;
    static constexpr u32 input_rows = cutter::input_rows(cut), input_pitch = row::input_quads(quads);
    static constexpr u32 weight_pitch = cutter::weight_pitch(cut), quads_of_outs = divide_up(outs, 4);
    static constexpr u32 row_tiles = divide_up(Pass::out_height, rows);
    static constexpr u32 column_tiles = divide_up(Pass::out_width, 4 * quads);
    static constexpr u32 channel_tiles = divide_up(Pass::out_channels, outs* groups);
    static constexpr u32 tiles = row_tiles * column_tiles * channel_tiles; ///< of an image
    static constexpr u32 kernel_chunks = divide_up(kernel, kernel_rows);
    static constexpr u32 chunks = divide_up(Pass::in_channels, channels) * kernel_chunks;
    static constexpr u32 threads = divide_up(quads * rows * groups, 32) * 32;

    struct shared {
        quad<number> input[cutter::input_quads(cut)], weights[cutter::weight_quads(cut)];
    };
    static_assert(sizeof(shared) <= most_shared_bytes, "rows of the kernel must fit into shared memory");
    struct own {
        number sum[outs][4];
    };

    T const *x, *w;
    T* y;
    End end;

    TRIREME_HOST_DEVICE int phases() const { return static_cast<int>(2 * chunks); }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own& mine) const {
        u32 const sample = at.block / tiles, tile = at.block % tiles;
        u32 const first_row = tile % row_tiles * rows, first_quad = tile / row_tiles % column_tiles * quads;
        u32 const first_out = tile / (row_tiles * column_tiles) * (outs * groups);
        u32 const chunk = static_cast<u32>(k) / 2;
        u32 const first_channel = chunk / kernel_chunks * channels;
        u32 const first_kernel_row = chunk % kernel_chunks * kernel_rows;
        if (k == 0)
            for (u32 o = 0; o < outs; ++o)
                for (u32 i = 0; i < 4; ++i) mine.sum[o][i] = 0;
        if (k % 2 == 0) {
            using order = image_order<Pass::channels_last, Pass::in_channels, Pass::in_height * Pass::in_width>;
            copy_tile<order, Pass::in_height, Pass::in_width, Pass::spread, channels, input_rows, input_pitch, threads>(
                x + order::place(sample, first_channel, 0), Pass::in_channels - first_channel,
                static_cast<int>(first_row * Pass::stride + first_kernel_row) - Pass::padding,
                static_cast<int>(4 * first_quad * Pass::stride) - Pass::padding, s.input, at.thread);
            weight_copy const copy{w, s.weights, first_out, first_channel, first_kernel_row * kernel};
            copy_in_batches(copy, at.thread, threads, outs * groups * channels * kernel_rows * kernel);
        } else if (at.thread < quads * rows * groups) {
            u32 const column = at.thread % quads, line = at.thread / quads % rows, group = at.thread / (quads * rows);
            add_chunk(s, mine, column, line, group);
            if (chunk + 1 == chunks)
                store(mine, sample, first_row + line, 4 * (first_quad + column), first_out + group * outs);
        }
    }

private:
    /// The weights of a chunk: [channel][kernel row][kernel column][group][outs].
    struct weight_copy {
        using value = number;
        T const* from;
        quad<number>* to;
        u32 first_out, first_in, first_tap;

        struct place {
            u32 out, in, tap;
            TRIREME_HOST_DEVICE explicit place(u32 i) {
                constexpr u32 taps = kernel_rows * kernel, inner = Pass::flipped ? outs * groups : channels;
                u32 const row_of_taps = i / taps, a = row_of_taps / inner, b = row_of_taps % inner;
                out = Pass::flipped ? b : a;
                in = Pass::flipped ? a : b;
                tap = i % taps;
            }
        };
        TRIREME_HOST_DEVICE number load(u32 i) const {
            constexpr u32 all = kernel * kernel;
            using order = image_order<Pass::channels_last, Pass::flipped ? Pass::out_channels : Pass::in_channels, all>;
            place const at(i);
            u32 const out = first_out + at.out, in = first_in + at.in, tap = first_tap + at.tap;
            if (out >= Pass::out_channels || in >= Pass::in_channels || tap >= all) return 0;
            return static_cast<number>(
                from[Pass::flipped ? order::place(in, out, all - 1 - tap) : order::place(out, in, tap)]);
        }
        TRIREME_HOST_DEVICE void store(u32 i, number v) const {
            place const at(i);
            u32 const group = at.out / outs, o = at.out % outs;
            to[(at.in * (kernel_rows * kernel) + at.tap) * weight_pitch + group * quads_of_outs + o / 4].v[o % 4] = v;
        }
    };

    TRIREME_HOST_DEVICE static void add_chunk(shared const& s, own& mine, u32 column, u32 line, u32 group) {
        for (u32 c = 0; c < channels; ++c)
            for (u32 ky = 0; ky < kernel_rows; ++ky)
                for (u32 piece = 0; piece < row::pieces; ++piece) {
                    u32 const input = (c * input_rows + line * Pass::stride + ky) * input_pitch +
                                      column * Pass::stride + piece * row::piece / 4;
                    conv2d_window<Pass::stride, row::piece, number> const window(s.input + input);
                    u32 const tap = (c * kernel_rows + ky) * kernel + piece * row::piece;
                    for (u32 kx = 0; kx < row::piece; ++kx)
                        if (piece * row::piece + kx < kernel)
                            add_tap(s.weights + (tap + kx) * weight_pitch + group * quads_of_outs, window, kx, mine);
                }
    }
    TRIREME_HOST_DEVICE static void add_tap(quad<number> const* weights,
                                            conv2d_window<Pass::stride, row::piece, number> const& window, u32 kx,
                                            own& mine) {
        for (u32 q = 0; q < quads_of_outs; ++q) {
            quad<number> const weight = weights[q];
            for (u32 o = 0; o < 4; ++o)
                if (4 * q + o < outs)
                    for (u32 i = 0; i < 4; ++i) mine.sum[4 * q + o][i] += weight.v[o] * window.at(i, kx);
        }
    }

    TRIREME_HOST_DEVICE void store(own const& mine, u32 sample, u32 line, u32 column, u32 out) const {
        if (line >= Pass::out_height || column >= Pass::out_width) return;
        u32 const count = Pass::out_width - column < 4 ? Pass::out_width - column : 4;
        for (u32 o = 0; o < outs; ++o) {
            if (out + o >= Pass::out_channels) break;
            using order = image_order<Pass::channels_last, Pass::out_channels, Pass::out_height * Pass::out_width>;
            std::size_t const place = order::place(sample, out + o, line * Pass::out_width + column);
            number value[4];
            for (u32 i = 0; i < 4; ++i)
                value[i] = i < count ? end(mine.sum[o][i], out + o, place + i * order::next_position) : number(0);
            if constexpr (order::rows_lie_together)
                store_row<Pass::out_width % 4 == 0>(y + place, value, count);
            else
                for (u32 i = 0; i < count; ++i) y[place + i * order::next_position] = static_cast<T>(value[i]);
        }
    }
};

template<class Pass, class Stream, class End, class T>
void launch_conv2d(block_kernels<Stream> const& k, T const* x, T const* w, T* y, End end) {
    using program = conv2d_program<Pass, End, T>;
    if (k.samples() != 0) k.queue().launch(program{x, w, y, end}, static_cast<u32>(k.samples()) * program::tiles);
}

// ---- backward_weights ----

/// The division of the sums among blocks and threads. A thread adds up a piece of a kernel's row for `outs` output
/// channels and one input channel, over every so many rows of an image; a block `groups` x `channels` x `kernel_rows`
/// of these. Tiles of `rows` x `quads` of dy, and what they saw of x, pass through shared memory.
struct conv2d_weights_cut {
    u32 outs, groups, channels, kernel_rows, rows, quads;
};

template<class G>
struct conv2d_weights_cutter {
    static constexpr u32 kernel = G::kernel, stride = G::stride, out_channels = G::out_channels;
    using row = kernel_row<kernel, stride>;

    static constexpr u32 input_rows(conv2d_weights_cut c) noexcept { return (c.rows - 1) * stride + c.kernel_rows; }
    /// Quads of a row; odd, so that the rows that neighbours look at lie in different banks.
    static constexpr u32 input_pitch(conv2d_weights_cut c) noexcept { return row::input_quads(c.quads) | 1; }
    static constexpr u32 input_quads(conv2d_weights_cut c) noexcept {
        return c.channels * input_rows(c) * input_pitch(c);
    }
    static constexpr u32 output_quads(conv2d_weights_cut c) noexcept { return c.groups * c.outs * c.rows * c.quads; }

    static constexpr conv2d_weights_cut cut(u32 most_threads, std::size_t bytes_of_quad) noexcept {
        conv2d_weights_cut c{1, 1, 1, 1, G::out_height, least(divide_up(G::out_width, 4), 16)};
        for (u32 outs = 2; outs <= 4 && outs * row::piece <= 20; ++outs)
            if (8 * divide_up(out_channels, outs) * outs <= 9 * out_channels) c.outs = outs;
        u32 const all_groups = divide_up(out_channels, c.outs);
        c.kernel_rows = least(kernel, most(most_threads / row::pieces, 1));
        u32 const units = most(most_threads / (row::pieces * c.kernel_rows), 1);
        c.channels = least(G::channels, most(units / least(all_groups, 8), 1)); // about as many of both
        c.groups = least(all_groups, most(units / c.channels, 1));
        for (u32* most : {&c.rows, &c.quads, &c.channels, &c.groups, &c.kernel_rows})
            while ((input_quads(c) + output_quads(c)) * bytes_of_quad > most_shared_bytes && *most > 1)
                *most = divide_up(*most, 2);
        c.rows = evened(G::out_height, c.rows);
        c.groups = evened(all_groups, c.groups);
        c.channels = evened(G::channels, c.channels);
        return c;
    }
};

/// Sums over a range of tiles of images of the gradients with respect to the weights and the biases. Reads x and dy
/// once per tile of weights (all of them, if they are few), and writes a partial sum for every weight and range.
template<class G, class T>
struct conv2d_weights_program {
    using number = accumulate_t<T>;
    using cutter = conv2d_weights_cutter<G>;
    using row = typename cutter::row;
    static constexpr u32 most_threads = sizeof(number) > 4 ? 160 : 320; // their sums must fit into shared memory
    static constexpr conv2d_weights_cut cut = cutter::cut(most_threads, sizeof(quad<number>));
    static constexpr u32 outs = cut.outs, groups = cut.groups, channels = cut.channels, kernel_rows = cut.kernel_rows;
    static constexpr u32 rows = cut.rows, quads = cut.quads, kernel = G::kernel, stride = G::stride;
    static constexpr u32 height = G::height, width = G::width, in_channels = G::channels;
    static constexpr u32 out_height = G::out_height, out_width = G::out_width, out_channels = G::out_channels;
    static constexpr u32 input_rows = cutter::input_rows(cut), input_pitch = cutter::input_pitch(cut);
    static constexpr u32 units = groups * channels * kernel_rows * row::pieces;
    static constexpr u32 rows_of_thread = divide_up(rows, least(rows, most(most_threads / units, 1)));
    static constexpr u32 row_groups = divide_up(rows, rows_of_thread);
    static constexpr u32 threads = divide_up(units * row_groups, 32) * 32;
    static constexpr u32 slots = outs * (row::piece + 1); ///< a thread's sums

    static constexpr u32 channel_tiles = divide_up(in_channels, channels),
                         kernel_tiles = divide_up(kernel, kernel_rows);
    static constexpr u32 tiles = divide_up(out_channels, outs* groups) * channel_tiles * kernel_tiles; ///< of weights
    static constexpr u32 column_tiles = divide_up(out_width, 4 * quads);
    static constexpr u32 chunks = divide_up(out_height, rows) * column_tiles; ///< of an image
    static constexpr u32 weights = out_channels * in_channels * kernel * kernel;
    static constexpr std::size_t bytes_of_partial = sizeof(number) * (weights + out_channels);

    struct image {
        quad<number> x[cutter::input_quads(cut)], dy[cutter::output_quads(cut)];
    };
    struct shared {
        union {
            image tile;
            number sums[slots][threads]; // when the last tile is done with
        };
    };
    static_assert(sizeof(shared) <= most_shared_bytes, "rows of the kernel must fit into shared memory");
    struct own {
        number weight[outs][row::piece];
        number bias[outs];
    };

    T const *x, *dy;
    number* partials;
    u32 items, items_of_part; ///< tiles of all images, and how many a block adds up

    TRIREME_HOST_DEVICE int phases() const { return static_cast<int>(2 * items_of_part + 2); }
    TRIREME_HOST_DEVICE void phase(int phase_number, block_place at, shared& s, own& mine) const {
        auto const k = static_cast<u32>(phase_number);
        tile_of_weights const tile(at.block % tiles);
        u32 const part = at.block / tiles, item = part * items_of_part + k / 2;
        if (k == 0)
            for (u32 o = 0; o < outs; ++o) {
                mine.bias[o] = 0;
                for (u32 i = 0; i < row::piece; ++i) mine.weight[o][i] = 0;
            }
        if (k >= 2 * items_of_part) {
            if (k % 2 == 0)
                keep_sums(at.thread, s, mine);
            else
                add_up(at.thread, s, tile, partials + std::size_t{part} * (weights + out_channels));
        } else if (item < items) {
            u32 const sample = item / chunks, chunk = item % chunks;
            u32 const first_row = chunk / column_tiles * rows, first_quad = chunk % column_tiles * quads;
            if (k % 2 == 0)
                copy(at.thread, s, tile, sample, first_row, first_quad);
            else if (at.thread < units * row_groups)
                add_chunk(unit_of_thread(at.thread % units), at.thread / units, tile, s, mine);
        }
    }

private:
    struct tile_of_weights {
        u32 out, channel, kernel_row; ///< the first
        TRIREME_HOST_DEVICE explicit tile_of_weights(u32 i)
            : out(i / (channel_tiles * kernel_tiles) * (outs * groups)),
              channel(i / kernel_tiles % channel_tiles * channels), kernel_row(i % kernel_tiles * kernel_rows) {}
        /// One tile of each output channel adds up the bias.
        TRIREME_HOST_DEVICE bool has_bias() const { return channel == 0 && kernel_row == 0; }
    };
    struct unit_of_thread {
        u32 group, channel, kernel_row, piece;
        TRIREME_HOST_DEVICE explicit unit_of_thread(u32 i)
            : group(i / (row::pieces * kernel_rows * channels)), channel(i / (row::pieces * kernel_rows) % channels),
              kernel_row(i / row::pieces % kernel_rows), piece(i % row::pieces) {}
    };

    TRIREME_HOST_DEVICE void copy(u32 thread, shared& s, tile_of_weights tile, u32 sample, u32 first_row,
                                  u32 first_quad) const {
        constexpr int padding = static_cast<int>(G::padding);
        using input = image_order<G::channels_last, in_channels, height * width>;
        using output = image_order<G::channels_last, out_channels, out_height * out_width>;
        copy_tile<input, height, width, 1, channels, input_rows, input_pitch, threads>(
            x + input::place(sample, tile.channel, 0), in_channels - tile.channel,
            static_cast<int>(first_row * stride + tile.kernel_row) - padding,
            static_cast<int>(4 * first_quad * stride) - padding, s.tile.x, thread);
        copy_tile<output, out_height, out_width, 1, outs * groups, rows, quads, threads>(
            dy + output::place(sample, tile.out, 0), out_channels - tile.out, static_cast<int>(first_row),
            static_cast<int>(4 * first_quad), s.tile.dy, thread);
    }

    TRIREME_HOST_DEVICE static void add_chunk(unit_of_thread unit, u32 row_group, tile_of_weights tile, shared const& s,
                                              own& mine) {
        bool const bias = tile.has_bias() && unit.channel == 0 && unit.kernel_row == 0 && unit.piece == 0;
        for (u32 line = row_group; line < rows; line += row_groups) {
            u32 const input = (unit.channel * input_rows + line * stride + unit.kernel_row) * input_pitch;
            for (u32 column = 0; column < quads; ++column) {
                conv2d_window<stride, row::piece, number> const window(s.tile.x + input + column * stride +
                                                                       unit.piece * row::piece / 4);
                for (u32 o = 0; o < outs; ++o) {
                    quad<number> const d = s.tile.dy[((unit.group * outs + o) * rows + line) * quads + column];
                    for (u32 kx = 0; kx < row::piece; ++kx)
                        for (u32 i = 0; i < 4; ++i) mine.weight[o][kx] += d.v[i] * window.at(i, kx);
                    if (bias) mine.bias[o] += (d.v[0] + d.v[1]) + (d.v[2] + d.v[3]);
                }
            }
        }
    }

    TRIREME_HOST_DEVICE static void keep_sums(u32 thread, shared& s, own const& mine) {
        for (u32 o = 0; o < outs; ++o) {
            for (u32 kx = 0; kx < row::piece; ++kx) s.sums[o * row::piece + kx][thread] = mine.weight[o][kx];
            s.sums[outs * row::piece + o][thread] = mine.bias[o];
        }
    }

    TRIREME_HOST_DEVICE static number sum_of(shared const& s, u32 slot, u32 unit) {
        number sum = 0;
        for (u32 group = 0; group < row_groups; ++group) sum += s.sums[slot][group * units + unit];
        return sum;
    }
    TRIREME_HOST_DEVICE static void add_up(u32 thread, shared const& s, tile_of_weights tile, number* partial) {
        constexpr u32 taps = kernel_rows * kernel;
        for (u32 i = thread; i < outs * groups * channels * taps; i += threads) {
            u32 const o = i / (channels * taps), c = i / taps % channels, tap = i % taps;
            u32 const ky = tap / kernel, kx = tap % kernel, kernel_row = tile.kernel_row + ky;
            if (tile.out + o >= out_channels || tile.channel + c >= in_channels || kernel_row >= kernel) continue;
            u32 const unit = ((o / outs * channels + c) * kernel_rows + ky) * row::pieces + kx / row::piece;
            using order = image_order<G::channels_last, in_channels, kernel * kernel>;
            partial[order::place(tile.out + o, tile.channel + c, kernel_row * kernel + kx)] =
                sum_of(s, o % outs * row::piece + kx % row::piece, unit);
        }
        if (!tile.has_bias()) return;
        for (u32 o = thread; o < outs * groups; o += threads)
            if (tile.out + o < out_channels)
                partial[weights + tile.out + o] =
                    sum_of(s, outs * row::piece + o % outs, o / outs * (channels * kernel_rows * row::pieces));
    }
};

} // namespace trireme::blocks

namespace trireme {

/// y = conv(x, w) + b with zero padding: the cross-correlation that PyTorch calls a convolution.
/// x: C x H x W, w: O x C x K x K, b: O, y: O x OH x OW; x and y per sample. C and O stand last, with w as O x K x K x
/// C, where the geometry says so.
template<class G, std::size_t Lanes, class Stream, class T>
void conv2d_forward(block_kernels<Stream> const& k, T const* x, T const* w, T const* b, T* y) {
    blocks::launch_conv2d<blocks::conv2d_forward_pass<G>>(k, x, w, y, blocks::forward_end<identity_function, T>{b});
}
template<class G, std::size_t Lanes, accelerator_kernels K, class F, class T>
void conv2d_forward(with_function<K, F, T> const& k, T const* x, T const* w, T const* b, T* y) {
    blocks::launch_conv2d<blocks::conv2d_forward_pass<G>>(k, x, w, y, blocks::forward_end<F, T>{b});
}

/// dx = the gradient with respect to x; overwrites dx.
template<class G, std::size_t Lanes, class Stream, class T>
void conv2d_backward_input(block_kernels<Stream> const& k, T const* w, T const* dy, T* dx) {
    using end = blocks::backward_end<identity_function, T>;
    blocks::launch_conv2d<blocks::conv2d_backward_pass<G>>(k, dy, w, dx, end{nullptr});
}
template<class G, std::size_t Lanes, accelerator_kernels K, class F, class T>
void conv2d_backward_input(with_function<K, F, T> const& k, T const* w, T const* dy, T* dx) {
    blocks::launch_conv2d<blocks::conv2d_backward_pass<G>>(k, dy, w, dx, blocks::backward_end<F, T>{k.input()});
}

/// Adds the gradients with respect to w and b, summed over the samples, to dw and db. The tiles of all images are cut
/// into as many parts as keep a device busy and the workspace has room for: their sums go through it.
template<class G, std::size_t Lanes, class Stream, class T>
void conv2d_backward_weights(block_kernels<Stream> const& k, T const* x, T const* dy, T* dw, T* db) {
    using blocks::u32;
    using program = blocks::conv2d_weights_program<G, T>;
    constexpr u32 enough_blocks = 256;
    constexpr std::size_t bytes = program::bytes_of_partial;
    if (k.samples() == 0) return;
    if (k.scratch().bytes < bytes)
        throw usage_error("conv2d with " + std::to_string(G::channels) + " input and " +
                          std::to_string(G::out_channels) + " output channels and kernel " + std::to_string(G::kernel) +
                          " needs " + std::to_string(bytes) + " bytes of workspace to add up its gradients, and has " +
                          std::to_string(k.scratch().bytes) + "; give the kernels more workspace");
    std::size_t const room = k.scratch().bytes / bytes;
    u32 const most_parts = blocks::least(blocks::most(enough_blocks / program::tiles, 1),
                                         room < enough_blocks ? static_cast<u32>(room) : enough_blocks);
    u32 const items = static_cast<u32>(k.samples()) * program::chunks;
    u32 const items_of_part = blocks::divide_up(items, most_parts), parts = blocks::divide_up(items, items_of_part);
    auto* const partials = static_cast<accumulate_t<T>*>(k.scratch().data);
    k.queue().launch(program{x, dy, partials, items, items_of_part}, parts * program::tiles);
    blocks::add_partials<16, T> const add{partials, parts, program::weights, G::out_channels, dw, db};
    k.queue().launch(add, add.blocks());
}

} // namespace trireme
