// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/units.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/portable/one_sample/matrix.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

// Products of the rows of a sample, which may be any number of them. The tile is that of one sample's products.

namespace trireme::detail::inline TRIREME_ISA {

/// A tile's registers side by side, and terms that pass together: accumulators, factors and one number for all lanes
/// fit into the registers that there are, and a panel of so many terms into the first cache.
inline constexpr std::size_t tile_registers = vector_bytes == 64 ? 4 : 2, panel_terms = vector_bytes == 64 ? 128 : 256;

/// c = a b or c += a b for `rows` rows; N columns, known to the compiler, and `terms` terms. See matrix_product. Each
/// row begins with the numbers of `start`, unless that is null.
template<std::size_t N, product_strides S, into Into, class T>
[[gnu::always_inline]] inline void product_of_rows(T const* a, T const* b, std::size_t rows, std::size_t terms, T* c,
                                                   T const* start = nullptr) noexcept {
    constexpr std::size_t width = row_register<T, N>, registers = (N + width - 1) / width;
    constexpr std::size_t back = registers * width - N;
    using vector = lane_vector<T, width>;
    for_blocks<0, registers, tile_registers>([&]<std::size_t Registers>(block_length<Registers>, std::size_t r) {
        constexpr std::size_t most_rows =
            Registers == tile_registers ? accumulators / Registers : std::bit_floor(accumulators / Registers);
        auto const shared = r + Registers == registers ? back : 0;
        auto const begin = [=](std::size_t, std::ptrdiff_t column) {
            return start == nullptr ? vector::all(0) : vector::load(start + r * width + column);
        };
        std::size_t m = 0;
        auto const tile = [&]<std::size_t Rows>(block_length<Rows>) {
            product_tile<Rows, Registers, width, S, Into>(a + m * S.a_row, b + r * width, terms, begin,
                                                          c + m * S.c_row + r * width, shared);
            m += Rows;
        };
        while (m + most_rows <= rows) tile(block_length<most_rows>{});
        while (m + 2 <= rows) tile(block_length<2>{});
        if (m < rows) tile(block_length<1>{});
    });
}

/// to[k][n] = from[n][k] for `rows` rows n, at most Rows, and `columns` columns k; `from` has rows of Step numbers, and
/// `to` rows of Rows, with zeros behind the last of `rows`.
template<std::size_t Rows, std::size_t Step, class T>
inline void transposed_copy(T const* from, std::size_t rows, std::size_t columns, T* to) noexcept {
    constexpr std::size_t width = full_register<T>;
    using vector = lane_vector<T, width>;
    static_assert(Rows % width == 0);
    for (std::size_t n = 0; n < Rows; n += width) {
        auto const whole = n + width <= rows ? columns / width * width : 0;
        for (std::size_t k = 0; k < whole; k += width) {
            vector some[width];
#pragma GCC unroll 16
            for (std::size_t i = 0; i < width; ++i) some[i] = vector::load(from + (n + i) * Step + k);
            transpose(some);
#pragma GCC unroll 16
            for (std::size_t i = 0; i < width; ++i) some[i].store(to + (k + i) * Rows + n);
        }
        for (auto k = whole; k < columns; ++k)
            for (std::size_t i = 0; i < width; ++i)
                to[k * Rows + n + i] = n + i < rows ? from[(n + i) * Step + k] : T(0);
    }
}

/// The layout of a product's right factor: a row for each term, or one for each column.
enum class right_factor { rows_of_terms, rows_of_columns };

/// Rows from which on a product copies a right factor that need not be transposed.
inline constexpr std::size_t rows_for_copy = 64;

/// c = a b, each row beginning with the numbers of `start` unless that is null, or c += a b. Shapes: a rows x terms, b
/// terms x N, or N x terms where its rows are those of columns, c rows x N; at most K terms. `rows` and `terms` are
/// numbers, or constants, of which compilers make other code. A sum runs over the terms in their order, panel_terms at
/// a time. Cost: if it `Copies`, a copy of b by panels of columns, each of which stays
/// in the first cache while the rows pass.
template<std::size_t N, std::size_t K, bool Copies, product_strides S, right_factor B, into Into, class T, class Rows,
         class Terms>
[[gnu::always_inline]] inline void product_by_panels(T const* a, T const* b, Rows rows, Terms terms, T* c,
                                                     T const* start = nullptr) noexcept {
    constexpr std::size_t width = full_register<T>;
    constexpr std::size_t most_terms = std::min(panel_terms, K);
    constexpr std::size_t block = std::min(tile_registers * width, round_up(N, width));
    // Rows that pass together: whole tiles, and few enough for their numbers to stay in the second cache.
    constexpr std::size_t most_rows = 264;
    static_assert(most_rows % (accumulators / tile_registers) == 0);
    constexpr product_strides strides{S.a_row, S.a_column, Copies ? block : S.b_row, S.c_row};
    alignas(64) T panel[Copies ? most_terms * block : 1]; // [term][column]
    for (std::size_t m = 0; m < rows; m += most_rows)
        for_blocks<0, N, block>([&]<std::size_t Columns>(block_length<Columns>, std::size_t n) {
            for (std::size_t k = 0; k < terms; k += most_terms) {
                auto const some = std::min<std::size_t>(most_terms, terms - k),
                           count = std::min<std::size_t>(most_rows, rows - m);
                auto const* factor = b + k * S.b_row + n;
                if constexpr (Copies) {
                    if constexpr (B == right_factor::rows_of_columns)
                        transposed_copy<block, S.b_row>(b + n * S.b_row + k, Columns, some, panel);
                    else
                        for (std::size_t i = 0; i < some; ++i)
                            copy_numbers<Columns>(factor + i * S.b_row, panel + i * block);
                    factor = panel;
                }
                auto const* const from = a + m * S.a_row + k * S.a_column;
                auto* const to = c + m * S.c_row + n;
                if (k == 0)
                    product_of_rows<Columns, strides, Into>(from, factor, count, some, to,
                                                            start == nullptr ? start : start + n);
                else if constexpr (K > most_terms)
                    product_of_rows<Columns, strides, into::add>(from, factor, count, some, to);
            }
        });
}

} // namespace trireme::detail::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
