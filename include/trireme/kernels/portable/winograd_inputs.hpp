// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/portable/winograd_plan.hpp>

#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

namespace trireme::detail::inline TRIREME_ISA {

// The inputs of Winograd's convolution as its products take them; kernels/portable/winograd.hpp explains the letters.

/// B' (a, b, c, d), in place.
template<class Vector>
[[gnu::always_inline]] inline void winograd_input(Vector& a, Vector& b, Vector& c, Vector& d) noexcept {
    auto const first = a - c, second = b + c, third = c - b, fourth = b - d;
    a = first, b = second, c = third, d = fourth;
}

/// V = B' d B for `count` tiles and all channels.
template<std::size_t Lanes, class T>
TRIREME_NOINLINE void winograd_inputs(winograd_plan<Lanes, T> const& plan, T const* x, std::size_t first,
                                      std::size_t count, T* v) noexcept {
    constexpr std::size_t width = register_lanes<T, Lanes>, line = 64 / sizeof(T);
    using vector = lane_vector<T, width>;
    alignas(64) T patch[16 * Lanes];
    for (std::size_t c = 0; c < plan.channels; ++c) {
        T const* const image = x + c * plan.height * plan.width * Lanes;
        std::size_t column = 0;
        for (std::size_t t = first; t < first + count; ++t) {
            // above and left of the image these wrap, and are larger than any size
            std::size_t const iy = t / plan.tile_columns * 2 - plan.padding;
            std::size_t const ix = t % plan.tile_columns * 2 - plan.padding;
            T const* from = patch;
            std::size_t step = 4 * Lanes;
            if (iy < plan.height && iy + 4 <= plan.height && ix < plan.width && ix + 4 <= plan.width) {
                from = image + (iy * plan.width + ix) * Lanes;
                step = plan.width * Lanes;
                // the next channel is out of sight of the hardware's prefetchers; the left columns are another tile's
                T const* const next = from + (c + 1 < plan.channels ? plan.height * step : 0);
#pragma GCC unroll 4
                for (std::size_t i = 0; i < 4; ++i)
                    for (std::size_t j = 2 * Lanes; j < 4 * Lanes; j += line) __builtin_prefetch(next + i * step + j);
            } else { // at the border: a copy with zeros around the image
                for (std::size_t i = 0; i < 4; ++i)
                    for (std::size_t j = 0; j < 4; ++j)
                        for (std::size_t lane = 0; lane < Lanes; lane += width) {
                            bool const inside = iy + i < plan.height && ix + j < plan.width;
                            auto const value =
                                inside ? vector::load(image + ((iy + i) * plan.width + ix + j) * Lanes + lane)
                                       : vector::all(0);
                            value.store(patch + (i * 4 + j) * Lanes + lane);
                        }
            }
            for (std::size_t lane = 0; lane < Lanes; lane += width, ++column) {
                vector d[4][4];
#pragma GCC unroll 4
                for (std::size_t i = 0; i < 4; ++i)
#pragma GCC unroll 4
                    for (std::size_t j = 0; j < 4; ++j) d[i][j] = vector::load(from + i * step + j * Lanes + lane);
#pragma GCC unroll 4
                for (std::size_t j = 0; j < 4; ++j) winograd_input(d[0][j], d[1][j], d[2][j], d[3][j]);
#pragma GCC unroll 4
                for (std::size_t i = 0; i < 4; ++i) winograd_input(d[i][0], d[i][1], d[i][2], d[i][3]);
                T* const to = v + plan.v_place(column, c);
#pragma GCC unroll 4
                for (std::size_t i = 0; i < 4; ++i)
#pragma GCC unroll 4
                    for (std::size_t j = 0; j < 4; ++j) d[i][j].store(to + (i * 4 + j) * plan.v_step);
            }
        }
    }
}

} // namespace trireme::detail::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
