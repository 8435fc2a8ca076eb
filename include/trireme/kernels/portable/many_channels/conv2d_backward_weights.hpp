// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/conv2d_places.hpp>

#include <algorithm>
#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

// The gradient of the weights where there are many input channels. It sums over samples and pixels, so with a sample in
// each lane every number of it would end in a sum over lanes. Here the lanes of a register are neighbouring output
// channels: a block of dy is transposed on the stack, and then serves many channels and all taps. A tile is some
// registers of output channels x some input channels, of one tap; a number of x is broadcast to all of its registers.
// Several taps at a time would save no loads, for they share only dy, and they would need a border: the pixels whose
// input lies inside the image are a rectangle for one tap.

namespace trireme::detail::inline TRIREME_ISA {

/// The blocks of a geometry. Letters in shapes: V numbers of a register, R registers of a tile.
template<class G, std::size_t Lanes, class T>
struct many_channels_blocks {
    static constexpr std::size_t width = full_register<T>, taps = G::kernel * G::kernel;
    static constexpr std::size_t most = 64 * 1024 / sizeof(T); // numbers of each of the two buffers

    // Without AVX a broadcast takes two instructions, so it serves more registers, and a product needs a register.
    static constexpr std::size_t most_registers = vector_bytes == 16 ? 3 : 2;
    static constexpr std::size_t most_sums = vector_bytes == 16 ? 9 : accumulators;

    // The last register may have numbers to spare: they are computed and dropped.
    static constexpr std::size_t registers = (G::out_channels + width - 1) / width;
    static constexpr std::size_t tile_registers = dividing_block(registers, most_registers);
    static constexpr std::size_t outs = tile_registers * width;

    // One buffer is a transposed block of dy: one row or several, or a part of one.
    static constexpr std::size_t most_pixels = most / (Lanes * outs);
    static constexpr std::size_t columns = even_block(G::out_width, std::max<std::size_t>(most_pixels, 1));
    static constexpr std::size_t rows = even_block(G::out_height, std::max<std::size_t>(most_pixels / columns, 1));

    // The other is the sums of a chunk of channels. Every chunk transposes dy anew.
    static constexpr std::size_t most_channels = most / (taps * outs);
    static constexpr std::size_t tile_channels =
        dividing_block(G::channels, std::clamp<std::size_t>(most_channels, 1, most_sums / tile_registers));
    static constexpr std::size_t tiles = (G::channels + tile_channels - 1) / tile_channels;
    static constexpr std::size_t chunk =
        even_block(tiles, std::max<std::size_t>(most_channels / tile_channels, 1)) * tile_channels;
};

/// True if this file's kernel is for the geometry: enough channels to pay for the transposition, buffers that hold a
/// pixel and a tile, and at most a fifth of the registers' numbers to spare.
template<class G, std::size_t Lanes, class T>
inline constexpr bool many_channels = [] {
    using blocks = many_channels_blocks<G, Lanes, T>;
    return G::channels >= 16 && Lanes % blocks::width == 0 && blocks::most_pixels >= 1 && blocks::most_channels >= 4 &&
           5 * G::out_channels >= 4 * blocks::registers * blocks::width;
}();

/// V rows of V numbers, the first at `from`, as columns. After `count` rows the last one is taken again.
template<bool All, std::size_t V, class T>
[[gnu::always_inline]] inline void load_transposed(T const* from, std::size_t step, std::size_t count,
                                                   lane_vector<T, V> (&columns)[V]) noexcept {
#pragma GCC unroll 32
    for (std::size_t i = 0; i < V; ++i)
        columns[i] = lane_vector<T, V>::load(from + (All ? i : std::min(i, count - 1)) * step);
    transpose(columns);
}

// The next two know no geometry, so that a program compiles them once.

/// to[i * to_step + o] = dy[o * step + i] for V output channels o, of which there are `count`, and n numbers, a
/// multiple of V; adds each channel's sum to totals[o].
template<bool All, class T>
inline void transpose_gradients(T const* dy, std::size_t step, std::size_t count, std::size_t n, T* to,
                                std::size_t to_step, T* totals) noexcept {
    constexpr std::size_t width = full_register<T>;
    using vector = lane_vector<T, width>;
    auto total = vector::load(totals);
    for (std::size_t at = 0; at < n; at += width) {
        vector column[width];
        load_transposed<All>(dy + at, step, count, column);
        auto sum = column[0];
#pragma GCC unroll 32
        for (std::size_t i = 0; i < width; ++i, to += to_step) {
            column[i].store(to);
            if (i > 0) sum = sum + column[i];
        }
        total = total + sum;
    }
    total.store(totals);
}

/// dw[o * step + t] += sums[t * sums_step + o] for V output channels o, of which there are `count`, and n taps.
template<class T>
inline void add_transposed(T const* sums, std::size_t sums_step, std::size_t n, T* dw, std::size_t step,
                           std::size_t count) noexcept {
    constexpr std::size_t width = full_register<T>;
    using vector = lane_vector<T, width>;
    for (std::size_t t = 0; t < n; t += width) {
        vector column[width];
        load_transposed<false>(sums + t * sums_step, sums_step, n - t, column);
        T rows[width * width];
#pragma GCC unroll 32
        for (std::size_t i = 0; i < width; ++i) column[i].store(rows + i * width);
        for (std::size_t i = 0; i < count; ++i) {
            T *const to = dw + i * step + t, *const from = rows + i * width;
            std::size_t const taps = std::min(width, n - t);
            (vector::load(to, taps) + vector::load(from)).store(to, taps);
        }
    }
}

/// sums[c..][ky][kx][R * V] += over the pixels rows x columns, whose gradients are [row][column][lane][R * V]. The
/// first block of pixels finds no sums.
template<class G, std::size_t Lanes, std::size_t Registers, std::size_t Channels, class T>
inline void many_channels_tile(T const* x, T const* gradients, T* sums, std::size_t ky, std::size_t kx,
                               place_range rows, place_range columns) noexcept {
    constexpr std::size_t width = full_register<T>, outs = Registers * width, step = G::kernel * G::kernel * outs;
    using vector = lane_vector<T, width>;
    bool const first = rows.begin == 0 && columns.begin == 0;
    vector sum[Channels][Registers];
#pragma GCC unroll 32
    for (std::size_t i = 0; i < Channels; ++i)
#pragma GCC unroll 32
        for (std::size_t j = 0; j < Registers; ++j)
            sum[i][j] = first ? vector::all(0) : vector::load(sums + i * step + j * width);
    auto const inner_rows = common(rows, outputs_inside(ky, G::height, G::out_height, G::padding, G::stride));
    auto const inner = common(columns, outputs_inside(kx, G::width, G::out_width, G::padding, G::stride));
    for (std::size_t oy = inner_rows.begin; oy < inner_rows.end; ++oy)
        for (std::size_t ox = inner.begin; ox < inner.end; ++ox) {
            std::size_t const iy = oy * G::stride + ky - G::padding, ix = ox * G::stride + kx - G::padding;
            std::size_t const pixel = (oy - rows.begin) * (columns.end - columns.begin) + ox - columns.begin;
            T const *const inputs = x + (iy * G::width + ix) * Lanes, *from = gradients + pixel * Lanes * outs;
#pragma GCC unroll 1
            for (std::size_t lane = 0; lane < Lanes; ++lane, from += outs) {
                vector gradient[Registers];
#pragma GCC unroll 32
                for (std::size_t j = 0; j < Registers; ++j) gradient[j] = vector::load(from + j * width);
#pragma GCC unroll 32
                for (std::size_t i = 0; i < Channels; ++i) {
                    auto const factor = vector::all(inputs[i * G::height * G::width * Lanes + lane]);
#pragma GCC unroll 32
                    for (std::size_t j = 0; j < Registers; ++j)
                        sum[i][j] = multiply_add(factor, gradient[j], sum[i][j]);
                }
            }
        }
#pragma GCC unroll 32
    for (std::size_t i = 0; i < Channels; ++i)
#pragma GCC unroll 32
        for (std::size_t j = 0; j < Registers; ++j) sum[i][j].store(sums + i * step + j * width);
}

/// Adds the gradients with respect to w and b, summed over the lanes, to dw and db. A sum runs over the image, and over
/// the lanes of each pixel. Stack: 128 KB.
/// Cost: one multiply-add per tap inside the image; per pixel and lane a tile of R x C sums loads R gradients and C
/// inputs. The transposition of dy is about as much work as 6 taps, once for `chunk` channels.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void many_channels_backward_weights(T const* x, T const* dy, T* dw, T* db) noexcept {
    using blocks = many_channels_blocks<G, Lanes, T>;
    constexpr std::size_t width = blocks::width, taps = blocks::taps;
    constexpr std::size_t image = G::height * G::width * Lanes, out_image = G::out_height * G::out_width * Lanes;
    alignas(64) T gradients[blocks::rows * blocks::columns * Lanes * blocks::outs];
    alignas(64) T sums[blocks::chunk * taps * blocks::outs];
    for_blocks<0, blocks::registers, blocks::tile_registers>([&]<std::size_t Registers>(block_length<Registers>,
                                                                                        std::size_t first) {
        constexpr std::size_t outs = Registers * width;
        std::size_t const o = first * width;
        auto const count = [&](std::size_t j) { return std::min(width, G::out_channels - o - j * width); };
        for (std::size_t c = 0; c < G::channels; c += blocks::chunk) {
            std::size_t const end = std::min(c + blocks::chunk, G::channels);
            T totals[outs] = {};
            for (std::size_t oy = 0; oy < G::out_height; oy += blocks::rows)
                for (std::size_t ox = 0; ox < G::out_width; ox += blocks::columns) {
                    place_range const rows{oy, std::min(oy + blocks::rows, G::out_height)};
                    place_range const columns{ox, std::min(ox + blocks::columns, G::out_width)};
                    std::size_t const n = (columns.end - ox) * Lanes;
                    for (std::size_t j = 0; j < Registers; ++j)
                        for (std::size_t row = oy; row < rows.end; ++row)
                            transpose_gradients<G::out_channels % width == 0>(
                                dy + (o + j * width) * out_image + (row * G::out_width + ox) * Lanes, out_image,
                                count(j), n, gradients + (row - oy) * n * outs + j * width, outs, totals + j * width);
                    auto const tiles = [&]<std::size_t Channels>(block_length<Channels>, std::size_t i) {
                        for (std::size_t ky = 0; ky < G::kernel; ++ky)
                            for (std::size_t kx = 0; kx < G::kernel; ++kx)
                                many_channels_tile<G, Lanes, Registers, Channels>(
                                    x + i * image, gradients, sums + ((i - c) * taps + ky * G::kernel + kx) * outs, ky,
                                    kx, rows, columns);
                    };
                    constexpr std::size_t rest = G::channels % blocks::tile_channels;
                    std::size_t i = c;
                    for (; i + blocks::tile_channels <= end; i += blocks::tile_channels)
                        tiles(block_length<blocks::tile_channels>{}, i);
                    if constexpr (rest != 0)
                        if (i < end) tiles(block_length<rest>{}, i);
                }
            for (std::size_t j = 0; j < Registers; ++j)
                add_transposed(sums + j * width, outs, (end - c) * taps,
                               dw + ((o + j * width) * G::channels + c) * taps, G::channels * taps, count(j));
            if (c == 0)
                for (std::size_t i = 0; i < std::min(outs, G::out_channels - o); ++i) db[o + i] += totals[i];
        }
    });
}

} // namespace trireme::detail::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
