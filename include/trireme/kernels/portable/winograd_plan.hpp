// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>

#include <algorithm>
#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

// Sizes of Winograd's convolution (kernels/portable/winograd.hpp): how much is computed at once, and where U, V, M and
// the sums of gradients lie.

/// Sums of one product: output channels x registers of tiles. Few of the latter, because V comes from the L2 cache.
inline constexpr std::size_t winograd_columns = 3, winograd_rows = accumulators / winograd_columns;

/// Output channels that are computed together: a line of U.
inline constexpr std::size_t winograd_outs = 16;

/// Output channels that the gradient with respect to the weights takes together: its registers run over them.
template<class T>
inline constexpr std::size_t winograd_gradient_outs = 2 * full_register<T>;

/// The sizes of a convolution, and what is where in the scratch memory. All steps count numbers.
template<std::size_t Lanes, class T>
struct winograd_plan {
    static constexpr std::size_t lane_width = register_lanes<T, Lanes>, registers = Lanes / lane_width;
    static constexpr std::size_t elements = 16, kernel = 9;

    // V is made for a block of tiles: half of an L2 cache of 1 MB, or all, if they are few. Then U is used once, and is
    // made for a block of output channels, which takes less memory.
    static constexpr std::size_t v_bytes = 512 * 1024, few_tiles = 8;

    std::size_t channels, height, width, out_channels, out_height, out_width, padding;
    std::size_t tile_columns, tiles, block, panels, v_rows;
    std::size_t v_step, u_step, m_step, d_step, sum_step; // from one element to the next

    constexpr winograd_plan(std::size_t c, std::size_t h, std::size_t w, std::size_t o, std::size_t p) noexcept
        : channels(c), height(h), width(w), out_channels(o), out_height(h + 2 * p - 2), out_width(w + 2 * p - 2),
          padding(p), tile_columns((out_width + 1) / 2), tiles((out_height + 1) / 2 * tile_columns) {
        std::size_t const tile_bytes = elements * channels * Lanes * sizeof(T);
        std::size_t const most = v_bytes / tile_bytes / winograd_columns * winograd_columns;
        block = tiles <= few_tiles ? tiles : even_block(tiles, std::max(most, winograd_columns));
        panels = (block * registers + winograd_columns - 1) / winograd_columns;
        v_rows = (channels + winograd_rows - 1) / winograd_rows * winograd_rows;
        // a line more than needed: the elements of a tile would share a set of the caches
        constexpr std::size_t line = 64 / sizeof(T);
        v_step = panels * v_rows * winograd_columns * lane_width + line;
        u_step = channels * winograd_outs + line;
        m_step = winograd_outs * m_row() + line;
        d_step = block * Lanes * winograd_gradient_outs<T> + line;
        sum_step = v_rows * winograd_gradient_outs<T> + line;
    }

    /// V: [element][panel of registers][channel][register]. There are v_rows channels, because products for the
    /// gradient take winograd_rows at a time; what stands behind the last one is never used.
    constexpr std::size_t v_place(std::size_t column, std::size_t channel) const noexcept {
        return ((column / winograd_columns * v_rows + channel) * winograd_columns + column % winograd_columns) *
               lane_width;
    }
    /// M: [element][output channel][register]
    constexpr std::size_t m_row() const noexcept { return panels * winograd_columns * lane_width; }

    /// True if the scratch memory has U, and the sums of its gradient, for all output channels: several blocks of tiles
    /// need them.
    constexpr bool keeps_weights() const noexcept { return tiles > block; }
    constexpr std::size_t blocks_kept(std::size_t outs) const noexcept {
        return keeps_weights() ? (out_channels + outs - 1) / outs : 1;
    }

    constexpr std::size_t scratch() const noexcept {
        return elements * (v_step + m_step + u_step * blocks_kept(winograd_outs));
    }
    constexpr std::size_t gradient_scratch() const noexcept {
        return elements * (v_step + d_step + sum_step * blocks_kept(winograd_gradient_outs<T>));
    }
};

} // namespace trireme::detail::inline TRIREME_ISA
