// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/conv2d_tiles.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/geometry.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace trireme::blocks {

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
