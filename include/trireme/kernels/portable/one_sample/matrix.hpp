// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/lanes.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

namespace trireme::detail::inline TRIREME_ISA {

/// The strides of a product c = a b: a(m, k) = a[m * a_row + k * a_column], b(k, n) = b[k * b_row + n], c(m, n) = c[m *
/// c_row + n].
struct product_strides {
    std::size_t a_row, a_column, b_row, c_row;
};

/// The use of a product: it overwrites c, or is added to it.
enum class into { overwrite, add };

/// Numbers of one register for rows of N numbers: never more than there are.
template<class T, std::size_t N>
inline constexpr std::size_t row_register = std::min(full_register<T>, std::bit_floor(N));

/// Rows rows of c and Registers registers of each, from column n on; the last register begins `back` columns earlier,
/// so that it ends where the row ends. The columns it shares with its neighbour get the same sum twice. A register of
/// row i and the columns from j on begins with start(i, j).
template<std::size_t Rows, std::size_t Registers, std::size_t Width, product_strides S, into Into, class T, class Start>
[[gnu::always_inline]] inline void product_tile(T const* a, T const* b, std::size_t terms, Start const& start, T* c,
                                                std::size_t back) noexcept {
    using vector = lane_vector<T, Width>;
    auto const column = [back](std::size_t j) { // of the only register it may be negative: a neighbour is before it
        return static_cast<std::ptrdiff_t>(j * Width) - static_cast<std::ptrdiff_t>(j + 1 == Registers ? back : 0);
    };
    vector sum[Rows][Registers];
#pragma GCC unroll 32
    for (std::size_t i = 0; i < Rows; ++i)
#pragma GCC unroll 32
        for (std::size_t j = 0; j < Registers; ++j) sum[i][j] = start(i, column(j));
#pragma GCC unroll 2 // a loop of half as many turns is foreseen to its end
    for (std::size_t k = 0; k < terms; ++k) {
        vector factor[Registers];
#pragma GCC unroll 32
        for (std::size_t j = 0; j < Registers; ++j) factor[j] = vector::load(b + k * S.b_row + column(j));
#pragma GCC unroll 32
        for (std::size_t i = 0; i < Rows; ++i) {
            auto const other = vector::all(a[i * S.a_row + k * S.a_column]);
#pragma GCC unroll 32
            for (std::size_t j = 0; j < Registers; ++j)
                if constexpr (Width == 1 || Rows * Registers == 1)
                    sum[i][j] = add_product(other, factor[j], sum[i][j]);
                else
                    sum[i][j] = multiply_add(other, factor[j], sum[i][j]);
        }
    }
#pragma GCC unroll 32
    for (std::size_t i = 0; i < Rows; ++i)
#pragma GCC unroll 32
        for (std::size_t j = 0; j < Registers; ++j) {
            T* const to = c + i * S.c_row + column(j);
            if (Into == into::overwrite)
                sum[i][j].store(to);
            else if (j + 1 < Registers || back == 0)
                (vector::load(to) + sum[i][j]).store(to);
            else { // the first `back` numbers have been added already
                T sums[Width];
                sum[i][j].store(sums);
                for (std::size_t n = back; n < Width; ++n) to[n] += sums[n];
            }
        }
}

/// c = a b, each row beginning with start[m] unless `start` is null, or c += a b. Shapes: a M x terms, b terms x N, c M
/// x N. Registers run over the columns; a sum runs over the terms in their order. For products of one sample, which are
/// too small for a library's packing to pay.
template<std::size_t M, std::size_t N, product_strides S, into Into, class T>
[[gnu::always_inline]] inline void matrix_product(T const* a, T const* b, std::size_t terms, T const* start,
                                                  T* c) noexcept {
    constexpr std::size_t width = row_register<T, N>, registers = (N + width - 1) / width;
    constexpr std::size_t back = registers * width - N; // columns that the last register shares
    constexpr std::size_t rows = even_block(M, accumulators / 3);
    constexpr std::size_t across = std::min<std::size_t>(accumulators / rows, 12);
    for_blocks<0, M, rows>([&]<std::size_t Rows>(block_length<Rows>, std::size_t m) {
        auto const begin = [=](std::size_t i, std::ptrdiff_t) {
            return lane_vector<T, width>::all(start == nullptr ? T{0} : start[m + i]);
        };
        for_blocks<0, registers, across>([&]<std::size_t Registers>(block_length<Registers>, std::size_t r) {
            product_tile<Rows, Registers, width, S, Into>(a + m * S.a_row, b + r * width, terms, begin,
                                                          c + m * S.c_row + r * width,
                                                          r + Registers == registers ? back : 0);
        });
    });
}

/// y[m] = (w x)[m] + b(m). Shapes: w Rows x Columns, x Columns. Registers run over the columns, their lanes are summed
/// last.
template<std::size_t Rows, std::size_t Columns, class T, class Bias>
[[gnu::always_inline]] inline void matrix_times_vector(T const* w, T const* x, Bias const& b, T* y) noexcept {
    constexpr std::size_t width = row_register<T, Columns>, full = Columns / width, rest = Columns % width;
    using vector = lane_vector<T, width>;
    for_blocks<0, Rows, accumulators / 2>([&]<std::size_t Block>(block_length<Block>, std::size_t m) {
        vector sum[Block];
#pragma GCC unroll 32
        for (std::size_t i = 0; i < Block; ++i) sum[i] = vector::all(0);
        for (std::size_t n = 0; n < full; ++n) {
            auto const values = vector::load(x + n * width);
#pragma GCC unroll 32
            for (std::size_t i = 0; i < Block; ++i)
                sum[i] = multiply_add(vector::load(w + (m + i) * Columns + n * width), values, sum[i]);
        }
        if constexpr (rest != 0) { // the last register, with zeros where its neighbour has been
            T last[width] = {};
            for (std::size_t n = width - rest; n < width; ++n) last[n] = x[Columns - width + n];
            auto const values = vector::load(last);
#pragma GCC unroll 32
            for (std::size_t i = 0; i < Block; ++i)
                sum[i] = multiply_add(vector::load(w + (m + i + 1) * Columns - width), values, sum[i]);
        }
#pragma GCC unroll 32
        for (std::size_t i = 0; i < Block; ++i) y[m + i] = b(m + i) + sum[i].sum();
    });
}

} // namespace trireme::detail::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
