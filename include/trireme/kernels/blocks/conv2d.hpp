// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>
#include <trireme/device/accelerator.hpp>
#include <trireme/kernels/blocks/conv2d_tiles.hpp>
#include <trireme/kernels/blocks/conv2d_weight_gradients.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/geometry.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

// Three kernels, two programs: the gradient by the input is a convolution as well. Both keep tiles of images in shared
// memory, one row of four numbers (a quad) behind the other, and compute with four neighbours of a row at a time.
namespace trireme::blocks {

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

/// Adds the gradients with respect to w and b, summed over the samples, to dw and db; the latter may be null. The tiles
/// of all images are cut into as many parts as keep a device busy and the workspace has room for: their sums go through
/// it.
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
    blocks::add_partials<16, T> const add{partials, parts, program::weights,     G::out_channels,
                                          dw,       db,    k.gradients_are_new()};
    k.queue().launch(add, add.blocks());
}

} // namespace trireme
