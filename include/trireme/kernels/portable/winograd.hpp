// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/winograd_inputs.hpp>
#include <trireme/kernels/portable/winograd_plan.hpp>
#include <trireme/kernels/portable/winograd_weight_gradients.hpp>

#include <algorithm>
#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

// Winograd's minimal filtering F(2x2, 3x3) for 3 x 3 kernels of stride 1 (Lavin and Gray, "Fast algorithms for
// convolutional neural networks", 2016), in their letters. A tile is 2 x 2 outputs; for one tile
//
//   U = G g G'    the kernel g, 3 x 3, made 4 x 4            G = 1    0   0     B' = 1  0 -1  0     A' = 1  1  1  0
//   V = B' d B    the 4 x 4 inputs d that the tile sees          1/2  1/2 1/2        0  1  1  0          0  1 -1 -1
//   M = sum U V   over the input channels, by elements           1/2 -1/2 1/2        0 -1  1  0
//   Y = A' M A    the outputs                                    0    0   1          0  1  0 -1
//
// with 16 multiplications where the direct kernel has 36. Each of the 16 elements is a matrix product over channels and
// tiles; a register holds samples, so that B and A are additions of whole registers. The gradient with respect to the
// inputs is the same with turned kernels. That with respect to the kernels is the transposed map, F(3x3, 2x2): dg = G'
// S G, where S sums V (A dy A') over tiles and samples. Results differ from the direct kernels' by rounding.
//
// A geometry is here a plan, numbers at run time, and all layers run the same machine code: inner loops run over
// channels or tiles, whose number a compiler need not know. Cost beside the multiply-adds: V and M are written and read
// once.

namespace trireme::detail::inline TRIREME_ISA {

/// The kernels of a convolution: w[out * out_step + channel * channel_step], turned by 180 degrees or not.
template<class T>
struct winograd_kernels {
    T const* w;
    std::size_t out_step, channel_step;
    bool turned;
};

/// G (a, b, c)
template<class Vector>
[[gnu::always_inline]] inline void winograd_weight(Vector a, Vector b, Vector c, Vector (&to)[4]) noexcept {
    auto const half = Vector::all(0.5f), sum = half * (a + c), middle = half * b;
    to[0] = a, to[1] = sum + middle, to[2] = sum - middle, to[3] = c;
}

/// U = G g G' for a block of output channels: [element][channel][output channel]. Registers run over output channels,
/// and those behind the last one repeat it.
template<std::size_t Lanes, class T>
TRIREME_NOINLINE void winograd_weights(winograd_plan<Lanes, T> const& plan, winograd_kernels<T> const& kernels,
                                       std::size_t first, T* u) noexcept {
    constexpr std::size_t width = full_register<T>, taps = winograd_plan<Lanes, T>::kernel;
    using vector = lane_vector<T, width>;
    T const* const end = kernels.w + plan.channels * plan.out_channels * taps;
    // A turned kernel's U has the first and the last row, and column, exchanged: G's middle rows are symmetric.
    static constexpr std::size_t places[2][4] = {{0, 1, 2, 3}, {3, 1, 2, 0}};
    auto const& place = places[kernels.turned ? 1 : 0];
    for (std::size_t o = 0; o < winograd_outs; o += width)
        for (std::size_t c = 0; c < plan.channels; ++c) {
            vector g[taps];
#pragma GCC unroll 9
            for (std::size_t k = 0; k < taps; k += width) {
                vector rows[width];
#pragma GCC unroll 16
                for (std::size_t i = 0; i < width; ++i) {
                    T const* const from = kernels.w +
                                          std::min(first + o + i, plan.out_channels - 1) * kernels.out_step +
                                          c * kernels.channel_step + k;
                    rows[i] = vector::load(from, static_cast<std::size_t>(end - from));
                }
                transpose(rows);
#pragma GCC unroll 16
                for (std::size_t i = 0; i < width; ++i)
                    if (k + i < taps) g[k + i] = rows[i];
            }
            vector columns[4][3], to[4];
#pragma GCC unroll 3
            for (std::size_t j = 0; j < 3; ++j) {
                winograd_weight(g[j], g[3 + j], g[6 + j], to);
                columns[0][j] = to[0], columns[1][j] = to[1], columns[2][j] = to[2], columns[3][j] = to[3];
            }
#pragma GCC unroll 4
            for (std::size_t i = 0; i < 4; ++i) {
                winograd_weight(columns[i][0], columns[i][1], columns[i][2], to);
#pragma GCC unroll 4
                for (std::size_t j = 0; j < 4; ++j)
                    to[j].store(u + (place[i] * 4 + place[j]) * plan.u_step + c * winograd_outs + o);
            }
        }
}

/// One element of M for winograd_rows output channels and Columns registers of tiles.
template<std::size_t Columns, std::size_t Lanes, class T>
TRIREME_NOINLINE void winograd_product(winograd_plan<Lanes, T> const& plan, T const* u, T const* v, T* m) noexcept {
    constexpr std::size_t width = register_lanes<T, Lanes>;
    using vector = lane_vector<T, width>;
    vector sum[winograd_rows][Columns];
#pragma GCC unroll 32
    for (std::size_t i = 0; i < winograd_rows; ++i)
#pragma GCC unroll 32
        for (std::size_t j = 0; j < Columns; ++j) sum[i][j] = vector::all(0);
    for (std::size_t c = 0; c < plan.channels; ++c) {
        vector input[Columns];
#pragma GCC unroll 32
        for (std::size_t j = 0; j < Columns; ++j) input[j] = vector::load(v + (c * winograd_columns + j) * width);
#pragma GCC unroll 32
        for (std::size_t i = 0; i < winograd_rows; ++i) {
            auto const factor = vector::all(u[c * winograd_outs + i]);
#pragma GCC unroll 32
            for (std::size_t j = 0; j < Columns; ++j) sum[i][j] = multiply_add(factor, input[j], sum[i][j]);
        }
    }
#pragma GCC unroll 32
    for (std::size_t i = 0; i < winograd_rows; ++i)
#pragma GCC unroll 32
        for (std::size_t j = 0; j < Columns; ++j) sum[i][j].store(m + i * plan.m_row() + j * width);
}

/// M = sum of U * V for `outs` output channels and `count` tiles.
template<std::size_t Lanes, class T>
TRIREME_NOINLINE void winograd_products(winograd_plan<Lanes, T> const& plan, T const* u, T const* v, std::size_t outs,
                                        std::size_t count, T* m) noexcept {
    std::size_t const columns = count * plan.registers;
    for (std::size_t k = 0; k < plan.elements; ++k)
        for (std::size_t j = 0; j < columns; j += winograd_columns)
            for (std::size_t i = 0; i < outs; i += winograd_rows) {
                T const* const weights = u + k * plan.u_step + i;
                T const* const inputs = v + k * plan.v_step + plan.v_place(j, 0);
                T* const to = m + k * plan.m_step + i * plan.m_row() + j * plan.lane_width;
                static_assert(winograd_columns == 3);
                if (columns - j >= 3)
                    winograd_product<3>(plan, weights, inputs, to);
                else if (columns - j == 2)
                    winograd_product<2>(plan, weights, inputs, to);
                else
                    winograd_product<1>(plan, weights, inputs, to);
            }
}

/// Y = A' M A for `outs` output channels and `count` tiles, where they are inside the image. b may be null.
template<std::size_t Lanes, class T>
TRIREME_NOINLINE void winograd_outputs(winograd_plan<Lanes, T> const& plan, T const* m, T const* b, std::size_t outs,
                                       std::size_t first, std::size_t count, T* y) noexcept {
    constexpr std::size_t width = register_lanes<T, Lanes>;
    using vector = lane_vector<T, width>;
    for (std::size_t o = 0; o < outs; ++o) {
        T const* from = m + o * plan.m_row();
        auto const bias = vector::all(b != nullptr ? b[o] : T{0});
        for (std::size_t t = first; t < first + count; ++t) {
            std::size_t const oy = t / plan.tile_columns * 2, ox = t % plan.tile_columns * 2;
            bool const below = oy + 1 < plan.out_height, right = ox + 1 < plan.out_width;
            T* const to = y + ((o * plan.out_height + oy) * plan.out_width + ox) * Lanes;
            for (std::size_t lane = 0; lane < Lanes; lane += width, from += width) {
                vector row[2][4];
#pragma GCC unroll 4
                for (std::size_t j = 0; j < 4; ++j) {
                    vector column[4];
#pragma GCC unroll 4
                    for (std::size_t i = 0; i < 4; ++i) column[i] = vector::load(from + (i * 4 + j) * plan.m_step);
                    row[0][j] = column[0] + (column[1] + column[2]);
                    row[1][j] = (column[1] - column[2]) - column[3];
                }
#pragma GCC unroll 2
                for (std::size_t i = 0; i < 2; ++i) {
                    if (i == 1 && !below) break;
                    T* const place = to + i * plan.out_width * Lanes + lane;
                    (row[i][0] + (row[i][1] + row[i][2]) + bias).store(place);
                    if (right) ((row[i][1] - row[i][2]) - row[i][3] + bias).store(place + Lanes);
                }
            }
        }
    }
}

/// y = conv(x, kernels) + b
template<std::size_t Lanes, class T>
TRIREME_NOINLINE void winograd_convolution(winograd_plan<Lanes, T> const& plan, T const* x,
                                           winograd_kernels<T> const& kernels, T const* b, T* y, T* scratch) noexcept {
    T *const v = scratch, *const m = v + plan.elements * plan.v_step, *const u = m + plan.elements * plan.m_step;
    for (std::size_t t = 0; t < plan.tiles; t += plan.block) {
        auto const count = std::min(plan.block, plan.tiles - t);
        winograd_inputs(plan, x, t, count, v);
        for (std::size_t o = 0; o < plan.out_channels; o += winograd_outs) {
            auto const outs = std::min(winograd_outs, plan.out_channels - o);
            T* const weights = u + (plan.keeps_weights() ? o / winograd_outs * plan.elements * plan.u_step : 0);
            if (t == 0) winograd_weights(plan, kernels, o, weights);
            winograd_products(plan, weights, v, outs, count, m);
            winograd_outputs(plan, m, b != nullptr ? b + o : nullptr, outs, t, count,
                             y + o * plan.out_height * plan.out_width * Lanes);
        }
    }
}

template<class G, std::size_t Lanes, class T>
inline constexpr winograd_plan<Lanes, T> winograd_forward_plan{G::channels, G::height, G::width, G::out_channels,
                                                               G::padding};
template<class G, std::size_t Lanes, class T>
inline constexpr winograd_plan<Lanes, T> winograd_backward_input_plan{G::out_channels, G::out_height, G::out_width,
                                                                      G::channels, 2 - G::padding};

template<class G>
inline constexpr bool winograd_applies = G::kernel == 3 && G::stride == 1 && G::padding <= 2;

/// Taps inside the image along one axis, over all outputs.
constexpr std::size_t winograd_taps(std::size_t size, std::size_t outputs, std::size_t padding) noexcept {
    std::size_t taps = 0;
    for (std::size_t out = 0; out < outputs; ++out)
        for (std::size_t k = 0; k < 3; ++k) taps += out + k >= padding && out + k < size + padding ? 1 : 0;
    return taps;
}

/// True if the functions below are faster than the direct kernels: granules fill registers, there are enough channels
/// on both sides for the transformations not to matter, and a quarter fewer multiplications than the direct kernels
/// have, which leave out the padding. (4 x 4 images have a third fewer, 5 x 5 an eighth, 3 x 3 have more.)
template<class G, std::size_t Lanes, class T>
constexpr bool winograd_pays() noexcept {
    if constexpr (winograd_applies<G> && register_lanes<T, Lanes> == full_register<T>) {
        std::size_t const taps =
            winograd_taps(G::height, G::out_height, G::padding) * winograd_taps(G::width, G::out_width, G::padding);
        std::size_t const tiles =
            std::max(winograd_forward_plan<G, Lanes, T>.tiles, winograd_backward_input_plan<G, Lanes, T>.tiles);
        return G::channels >= 32 && G::out_channels >= 32 && 4 * 16 * tiles <= 3 * taps;
    } else
        return false;
}

/// Bytes that each of the functions below needs at `scratch`, aligned to 64.
template<class G, std::size_t Lanes, class T>
constexpr std::size_t winograd_scratch_bytes() noexcept {
    static_assert(winograd_applies<G>);
    return sizeof(T) *
           std::max({winograd_forward_plan<G, Lanes, T>.scratch(), winograd_backward_input_plan<G, Lanes, T>.scratch(),
                     winograd_forward_plan<G, Lanes, T>.gradient_scratch()});
}

/// y = conv(x, w) + b with zero padding. x: C x H x W, w: O x C x 3 x 3, b: O, y: O x OH x OW; x and y times Lanes.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void winograd_forward(T const* x, T const* w, T const* b, T* y, T* scratch) noexcept {
    static_assert(winograd_applies<G>);
    winograd_convolution(winograd_forward_plan<G, Lanes, T>, x, {w, G::channels * 9, 9, false}, b, y, scratch);
}

/// dx = the gradient with respect to x; overwrites dx.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void winograd_backward_input(T const* w, T const* dy, T* dx, T* scratch) noexcept {
    static_assert(winograd_applies<G>);
    winograd_convolution(winograd_backward_input_plan<G, Lanes, T>, dy, {w, 9, G::channels * 9, true},
                         static_cast<T const*>(nullptr), dx, scratch);
}

/// Adds the gradients with respect to w and b, summed over the lanes, to dw and db.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void winograd_backward_weights(T const* x, T const* dy, T* dw, T* db, T* scratch) noexcept {
    static_assert(winograd_applies<G>);
    winograd_kernel_gradients(winograd_forward_plan<G, Lanes, T>, x, dy, dw, db, scratch);
}

} // namespace trireme::detail::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
