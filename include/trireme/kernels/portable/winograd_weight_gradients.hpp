// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/portable/winograd_inputs.hpp>
#include <trireme/kernels/portable/winograd_plan.hpp>

#include <algorithm>
#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

namespace trireme::detail::inline TRIREME_ISA {

// Winograd's convolution, the gradient with respect to the kernels: dg = G' S G, where S sums V (A dy A') over tiles
// and samples; kernels/portable/winograd.hpp explains the letters.

/// A dy A' for a block of output channels and `count` tiles, [element][tile][lane][output channel], and the sums of dy
/// over tiles and lanes.
template<std::size_t Lanes, class T>
TRIREME_NOINLINE void winograd_gradients(winograd_plan<Lanes, T> const& plan, T const* dy, std::size_t o,
                                         std::size_t first, std::size_t count, T* d, T* db) noexcept {
    constexpr std::size_t width = full_register<T>, block = winograd_gradient_outs<T>;
    static_assert(register_lanes<T, Lanes> == width);
    using vector = lane_vector<T, width>;
    std::size_t const pixels = plan.out_height * plan.out_width;
    for (std::size_t i = 0; i < block; i += width) {
        auto sum = vector::all(0);
        for (std::size_t t = first; t < first + count; ++t) {
            std::size_t const oy = t / plan.tile_columns * 2, ox = t % plan.tile_columns * 2;
            for (std::size_t lane = 0; lane < Lanes; lane += width) {
                alignas(64) T tile[4][width][width]; // [output][lane][output channel]
                for (std::size_t p = 0; p < 4; ++p) {
                    vector rows[width];
                    bool const inside = oy + p / 2 < plan.out_height && ox + p % 2 < plan.out_width;
                    std::size_t const at = ((oy + p / 2) * plan.out_width + ox + p % 2) * Lanes + lane;
#pragma GCC unroll 16
                    for (std::size_t r = 0; r < width; ++r)
                        rows[r] =
                            inside ? vector::load(dy + std::min(o + i + r, plan.out_channels - 1) * pixels * Lanes + at)
                                   : vector::all(0);
                    transpose(rows);
#pragma GCC unroll 16
                    for (std::size_t r = 0; r < width; ++r) rows[r].store(tile[p][r]);
                }
                for (std::size_t r = 0; r < width; ++r) {
                    vector row[4][2];
#pragma GCC unroll 2
                    for (std::size_t j = 0; j < 2; ++j) {
                        auto const above = vector::load(tile[j][r]), below = vector::load(tile[2 + j][r]);
                        row[0][j] = above, row[1][j] = above + below, row[2][j] = above - below, row[3][j] = -below;
                    }
                    sum = sum + (row[1][0] + row[1][1]);
                    T* const to = d + ((t - first) * Lanes + lane + r) * block + i;
#pragma GCC unroll 4
                    for (std::size_t k = 0; k < 4; ++k) {
                        auto const left = row[k][0], right = row[k][1];
                        left.store(to + (k * 4) * plan.d_step);
                        (left + right).store(to + (k * 4 + 1) * plan.d_step);
                        (left - right).store(to + (k * 4 + 2) * plan.d_step);
                        (-right).store(to + (k * 4 + 3) * plan.d_step);
                    }
                }
            }
        }
        T sums[width];
        sum.store(sums);
        for (std::size_t r = 0; r < width && o + i + r < plan.out_channels; ++r) db[o + i + r] += sums[r];
    }
}

/// One element of the sums of V * A dy A' over `columns` registers of tiles, for winograd_rows channels.
template<std::size_t Lanes, class T>
TRIREME_NOINLINE void winograd_gradient_product(winograd_plan<Lanes, T> const& plan, T const* v, T const* d,
                                                std::size_t columns, bool add, T* sums) noexcept {
    constexpr std::size_t width = full_register<T>, block = winograd_gradient_outs<T>, registers = block / width;
    using vector = lane_vector<T, width>;
    vector sum[winograd_rows][registers];
#pragma GCC unroll 32
    for (std::size_t i = 0; i < winograd_rows; ++i)
#pragma GCC unroll 32
        for (std::size_t j = 0; j < registers; ++j) sum[i][j] = vector::all(0);
    for (std::size_t column = 0; column < columns; column += winograd_columns) {
        T const* from = v + plan.v_place(column, 0);
        T const* const end = from + std::min(winograd_columns, columns - column) * width;
        for (; from != end; ++from, d += block) {
            vector gradient[registers];
#pragma GCC unroll 32
            for (std::size_t j = 0; j < registers; ++j) gradient[j] = vector::load(d + j * width);
#pragma GCC unroll 32
            for (std::size_t i = 0; i < winograd_rows; ++i) {
                auto const factor = vector::all(from[i * winograd_columns * width]);
#pragma GCC unroll 32
                for (std::size_t j = 0; j < registers; ++j) sum[i][j] = multiply_add(factor, gradient[j], sum[i][j]);
            }
        }
    }
#pragma GCC unroll 32
    for (std::size_t i = 0; i < winograd_rows; ++i)
#pragma GCC unroll 32
        for (std::size_t j = 0; j < registers; ++j) {
            T* const to = sums + i * block + j * width;
            (add ? vector::load(to) + sum[i][j] : sum[i][j]).store(to);
        }
}

/// G' (a, b, c, d)
template<class Vector>
[[gnu::always_inline]] inline void winograd_weight_gradient(Vector a, Vector b, Vector c, Vector d,
                                                            Vector (&to)[3]) noexcept {
    auto const half = Vector::all(0.5f), sum = half * (b + c);
    to[0] = a + sum, to[1] = half * (b - c), to[2] = sum + d;
}

/// dw += G' sums G for a block of output channels.
template<std::size_t Lanes, class T>
TRIREME_NOINLINE void winograd_weight_gradients(winograd_plan<Lanes, T> const& plan, T const* sums, std::size_t o,
                                                T* dw) noexcept {
    constexpr std::size_t width = full_register<T>, block = winograd_gradient_outs<T>;
    constexpr std::size_t taps = winograd_plan<Lanes, T>::kernel, padded = (taps + width - 1) / width * width;
    using vector = lane_vector<T, width>;
    for (std::size_t i = 0; i < block; i += width)
        for (std::size_t c = 0; c < plan.channels; ++c) {
            vector rows[3][4], g[padded];
#pragma GCC unroll 4
            for (std::size_t j = 0; j < 4; ++j) {
                vector column[4], to[3];
#pragma GCC unroll 4
                for (std::size_t k = 0; k < 4; ++k)
                    column[k] = vector::load(sums + (k * 4 + j) * plan.sum_step + c * block + i);
                winograd_weight_gradient(column[0], column[1], column[2], column[3], to);
                rows[0][j] = to[0], rows[1][j] = to[1], rows[2][j] = to[2];
            }
#pragma GCC unroll 3
            for (std::size_t k = 0; k < 3; ++k) {
                vector to[3];
                winograd_weight_gradient(rows[k][0], rows[k][1], rows[k][2], rows[k][3], to);
                g[3 * k] = to[0], g[3 * k + 1] = to[1], g[3 * k + 2] = to[2];
            }
            T numbers[width][padded];
#pragma GCC unroll 16
            for (std::size_t k = 0; k < padded; k += width) {
                vector part[width];
#pragma GCC unroll 16
                for (std::size_t r = 0; r < width; ++r) part[r] = k + r < taps ? g[k + r] : vector::all(0);
                transpose(part);
#pragma GCC unroll 16
                for (std::size_t r = 0; r < width; ++r) part[r].store(numbers[r] + k);
            }
            for (std::size_t r = 0; r < width && o + i + r < plan.out_channels; ++r)
                add_numbers<taps>(numbers[r], dw + ((o + i + r) * plan.channels + c) * taps);
        }
}

/// Adds the gradients with respect to the weights and b.
template<std::size_t Lanes, class T>
TRIREME_NOINLINE void winograd_kernel_gradients(winograd_plan<Lanes, T> const& plan, T const* x, T const* dy, T* dw,
                                                T* db, T* scratch) noexcept {
    constexpr std::size_t outs = winograd_gradient_outs<T>;
    T *const v = scratch, *const d = v + plan.elements * plan.v_step, *const kept = d + plan.elements * plan.d_step;
    for (std::size_t t = 0; t < plan.tiles; t += plan.block) {
        auto const count = std::min(plan.block, plan.tiles - t);
        winograd_inputs(plan, x, t, count, v);
        for (std::size_t o = 0; o < plan.out_channels; o += outs) {
            T* const sums = kept + (plan.keeps_weights() ? o / outs * plan.elements * plan.sum_step : 0);
            winograd_gradients(plan, dy, o, t, count, d, db);
            for (std::size_t k = 0; k < plan.elements; ++k)
                for (std::size_t c = 0; c < plan.channels; c += winograd_rows)
                    winograd_gradient_product(plan, v + k * plan.v_step + plan.v_place(0, c), d + k * plan.d_step,
                                              count * plan.registers, t > 0, sums + k * plan.sum_step + c * outs);
            if (t + count == plan.tiles) winograd_weight_gradients(plan, sums, o, dw);
        }
    }
}

} // namespace trireme::detail::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
