// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/conv2d_places.hpp>
#include <trireme/kernels/portable/many_channels/conv2d_backward_weights.hpp>
#include <trireme/kernels/portable/narrow/conv2d.hpp>
#include <trireme/kernels/portable/one_sample/conv2d.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/portable/winograd.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

// Direct convolution. A tile is a block of output channels x neighbouring columns (forward), channels x columns
// (backward input) or output channels x kernel columns (backward weights), whose sums stay in registers over all taps.
// Which taps lie inside the image is decided per tile, never per tap: columns near the border, which have fewer, are
// tiles of one column and more channels. Every sum runs in one order fixed by the geometry. For many channels backward
// weights is another kernel, in many_channels/.

namespace trireme::detail::inline TRIREME_ISA {

/// y[o..][oy][ox..] for Outs output channels and Columns columns, over the taps rows x columns.
template<class G, std::size_t Lanes, std::size_t Outs, std::size_t Columns, class T>
inline void conv2d_forward_tile(T const* x, T const* w, T const* b, T* y, std::size_t o, std::size_t oy, std::size_t ox,
                                place_range rows, place_range columns) noexcept {
    constexpr std::size_t width = register_lanes<T, Lanes>, step = G::kernel * G::kernel * G::channels;
    using vector = lane_vector<T, width>;
    for (std::size_t lane = 0; lane < Lanes; lane += width) {
        vector sum[Outs][Columns];
#pragma GCC unroll 32
        for (std::size_t i = 0; i < Outs; ++i)
#pragma GCC unroll 32
            for (std::size_t j = 0; j < Columns; ++j) sum[i][j] = vector::all(b[o + i]);
        for (std::size_t c = 0; c < G::channels; ++c)
            for (std::size_t ky = rows.begin; ky < rows.end; ++ky)
                for (std::size_t kx = columns.begin; kx < columns.end; ++kx) {
                    std::size_t const iy = oy * G::stride + ky - G::padding, ix = ox * G::stride + kx - G::padding;
                    T const* const from = x + ((c * G::height + iy) * G::width + ix) * Lanes + lane;
                    T const* const weight = w + o * step + (c * G::kernel + ky) * G::kernel + kx;
                    vector input[Columns];
#pragma GCC unroll 32
                    for (std::size_t j = 0; j < Columns; ++j) input[j] = vector::load(from + j * G::stride * Lanes);
#pragma GCC unroll 32
                    for (std::size_t i = 0; i < Outs; ++i) {
                        auto const factor = vector::all(weight[i * step]);
#pragma GCC unroll 32
                        for (std::size_t j = 0; j < Columns; ++j) sum[i][j] = multiply_add(factor, input[j], sum[i][j]);
                    }
                }
#pragma GCC unroll 32
        for (std::size_t i = 0; i < Outs; ++i)
#pragma GCC unroll 32
            for (std::size_t j = 0; j < Columns; ++j)
                sum[i][j].store(y + (((o + i) * G::out_height + oy) * G::out_width + ox + j) * Lanes + lane);
    }
}

/// A place on one axis, as backward input walks it. Input place i and kernel place k meet in output (i + P - k) / S, so
/// i + P = q * S + phase meets only k = phase + t * S, in output q - t.
struct strided_place {
    std::size_t phase, q;
};

/// The t that have an output.
constexpr place_range steps_inside(strided_place place, std::size_t outputs, std::size_t kernel,
                                   std::size_t stride) noexcept {
    return ordered(place.q >= outputs ? place.q - outputs + 1 : 0,
                   std::min(ceil_div(kernel, place.phase, stride), place.q + 1));
}

/// dx[c..][iy][..] for Channels channels and Columns columns of the same phase, over the steps rows x columns.
template<class G, std::size_t Lanes, std::size_t Channels, std::size_t Columns, class T>
inline void conv2d_backward_input_tile(T const* w, T const* dy, T* dx, std::size_t c, std::size_t iy, strided_place row,
                                       strided_place column, place_range rows, place_range columns) noexcept {
    constexpr std::size_t width = register_lanes<T, Lanes>, step = G::kernel * G::kernel;
    using vector = lane_vector<T, width>;
    // a stride larger than the kernel leaves most inputs without an output
    bool const none = G::stride > G::kernel && (rows.begin == rows.end || columns.begin == columns.end);
    std::size_t const outs = none ? 0 : G::out_channels;
    for (std::size_t lane = 0; lane < Lanes; lane += width) {
        vector sum[Channels][Columns];
#pragma GCC unroll 32
        for (std::size_t i = 0; i < Channels; ++i)
#pragma GCC unroll 32
            for (std::size_t j = 0; j < Columns; ++j) sum[i][j] = vector::all(0);
        for (std::size_t o = 0; o < outs; ++o)
            for (std::size_t t = rows.begin; t < rows.end; ++t)
                for (std::size_t s = columns.begin; s < columns.end; ++s) {
                    std::size_t const ky = row.phase + t * G::stride, kx = column.phase + s * G::stride;
                    T const* const from =
                        dy + ((o * G::out_height + row.q - t) * G::out_width + column.q - s) * Lanes + lane;
                    T const* const weight = w + (o * G::channels + c) * step + ky * G::kernel + kx;
                    vector gradient[Columns];
#pragma GCC unroll 32
                    for (std::size_t j = 0; j < Columns; ++j) gradient[j] = vector::load(from + j * Lanes);
#pragma GCC unroll 32
                    for (std::size_t i = 0; i < Channels; ++i) {
                        auto const factor = vector::all(weight[i * step]);
#pragma GCC unroll 32
                        for (std::size_t j = 0; j < Columns; ++j)
                            sum[i][j] = multiply_add(factor, gradient[j], sum[i][j]);
                    }
                }
        std::size_t const ix = column.q * G::stride + column.phase - G::padding;
#pragma GCC unroll 32
        for (std::size_t i = 0; i < Channels; ++i)
#pragma GCC unroll 32
            for (std::size_t j = 0; j < Columns; ++j)
                sum[i][j].store(dx + (((c + i) * G::height + iy) * G::width + ix + j * G::stride) * Lanes + lane);
    }
}

/// The columns of one input row whose (ix + P) % S is Phase.
template<class G, std::size_t Lanes, std::size_t Phase, class T>
inline void conv2d_backward_input_phase(T const* w, T const* dy, T* dx, std::size_t iy, strided_place row,
                                        place_range rows) noexcept {
    constexpr std::size_t begin = ceil_div(G::padding, Phase, G::stride);
    constexpr std::size_t end = ceil_div(G::width + G::padding, Phase, G::stride);
    constexpr std::size_t steps = ceil_div(G::kernel, Phase, G::stride);
    constexpr std::size_t inner = std::clamp(steps == 0 ? 0 : steps - 1, begin, end);
    constexpr std::size_t inner_end = std::clamp(steps == 0 ? end : G::out_width, inner, end);
    constexpr std::size_t most_columns = 6, columns_block = even_block(inner_end - inner, most_columns);
    for_channels<G::channels, accumulators / columns_block>(
        [&]<std::size_t Channels>(block_length<Channels>, std::size_t c) {
            for_blocks<inner, inner_end, most_columns>([&]<std::size_t Columns>(block_length<Columns>, std::size_t q) {
                conv2d_backward_input_tile<G, Lanes, Channels, Columns>(w, dy, dx, c, iy, row, {Phase, q}, rows,
                                                                        {0, steps});
            });
        });
    auto const border = [&](std::size_t q, std::size_t last) {
        for (; q < last; ++q)
            for_channels<G::channels, accumulators / 2>(
                [&]<std::size_t Channels>(block_length<Channels>, std::size_t c) {
                    conv2d_backward_input_tile<G, Lanes, Channels, 1>(
                        w, dy, dx, c, iy, row, {Phase, q}, rows,
                        steps_inside({Phase, q}, G::out_width, G::kernel, G::stride));
                });
    };
    if constexpr (begin < inner) border(begin, inner);
    if constexpr (inner_end < end) border(inner_end, end);
}

/// dw[o..][c][ky][kx..] += for Outs output channels and Columns kernel columns.
template<class G, std::size_t Lanes, std::size_t Outs, std::size_t Columns, class T>
inline void conv2d_backward_weights_tile(T const* x, T const* dy, T* dw, std::size_t o, std::size_t c, std::size_t ky,
                                         std::size_t first) noexcept {
    std::size_t const kx = Columns == G::kernel ? 0 : first; // the usual case, whose bounds the compiler then knows
    constexpr std::size_t width = register_lanes<T, Lanes>, pixels = G::out_height * G::out_width;
    using vector = lane_vector<T, width>;
    vector sum[Outs][Columns];
#pragma GCC unroll 32
    for (std::size_t i = 0; i < Outs; ++i)
#pragma GCC unroll 32
        for (std::size_t j = 0; j < Columns; ++j) sum[i][j] = vector::all(0);

    // [inner, inner_end): output columns at which all kernel columns of the tile lie inside the image
    auto const outputs_of = [&](std::size_t j) {
        return outputs_inside(kx + j, G::width, G::out_width, G::padding, G::stride);
    };
    std::size_t const inner = outputs_of(0).begin, inner_end = std::max(inner, outputs_of(Columns - 1).end);
    auto const rows = outputs_inside(ky, G::height, G::out_height, G::padding, G::stride);
    for (std::size_t lane = 0; lane < Lanes; lane += width)
        for (std::size_t oy = rows.begin; oy < rows.end; ++oy) {
            std::size_t const iy = oy * G::stride + ky - G::padding;
            T const* const gradients = dy + (o * pixels + oy * G::out_width) * Lanes + lane;
            T const* const inputs = x + (c * G::height + iy) * G::width * Lanes + lane;
            if constexpr (G::padding > 0) { // the columns beside the inner ones, one kernel column at a time
                for (bool right : {false, true})
#pragma GCC unroll 32
                    for (std::size_t j = 0; j < Columns; ++j) {
                        auto const all = outputs_of(j);
                        std::size_t const end = right ? all.end : std::min(all.end, inner);
                        for (std::size_t ox = right ? std::max(all.begin, inner_end) : all.begin; ox < end; ++ox) {
                            auto const input = vector::load(inputs + (ox * G::stride + kx + j - G::padding) * Lanes);
#pragma GCC unroll 32
                            for (std::size_t i = 0; i < Outs; ++i)
                                sum[i][j] =
                                    multiply_add(vector::load(gradients + (i * pixels + ox) * Lanes), input, sum[i][j]);
                        }
                    }
            }
            for (std::size_t ox = inner; ox < inner_end; ++ox) {
                vector input[Columns];
#pragma GCC unroll 32
                for (std::size_t j = 0; j < Columns; ++j)
                    input[j] = vector::load(inputs + (ox * G::stride + kx + j - G::padding) * Lanes);
#pragma GCC unroll 32
                for (std::size_t i = 0; i < Outs; ++i) {
                    auto const gradient = vector::load(gradients + (i * pixels + ox) * Lanes);
#pragma GCC unroll 32
                    for (std::size_t j = 0; j < Columns; ++j) sum[i][j] = multiply_add(gradient, input[j], sum[i][j]);
                }
            }
        }
#pragma GCC unroll 32
    for (std::size_t i = 0; i < Outs; ++i)
#pragma GCC unroll 32
        for (std::size_t j = 0; j < Columns; ++j)
            dw[((o + i) * G::channels + c) * G::kernel * G::kernel + ky * G::kernel + kx + j] += sum[i][j].sum();
}

/// The gradients with respect to w and b for few channels. The sums run over the image first and over the lanes last.
template<class G, std::size_t Lanes, class T>
[[gnu::always_inline]] inline void few_channels_backward_weights(T const* x, T const* dy, T* dw, T* db) noexcept {
    constexpr std::size_t width = register_lanes<T, Lanes>, pixels = G::out_height * G::out_width;
    using vector = lane_vector<T, width>;
    for_channels<G::out_channels, accumulators / 2>([&]<std::size_t Outs>(block_length<Outs>, std::size_t o) {
        vector sum[Outs];
#pragma GCC unroll 32
        for (std::size_t i = 0; i < Outs; ++i) sum[i] = vector::all(0);
        for (std::size_t at = 0; at < pixels * Lanes; at += width)
#pragma GCC unroll 32
            for (std::size_t i = 0; i < Outs; ++i) sum[i] = sum[i] + vector::load(dy + (o + i) * pixels * Lanes + at);
#pragma GCC unroll 32
        for (std::size_t i = 0; i < Outs; ++i) db[o + i] += sum[i].sum();
    });
    constexpr std::size_t most_columns = 6, columns_block = even_block(G::kernel, most_columns);
    for_channels<G::out_channels, accumulators / columns_block>([&]<std::size_t Outs>(block_length<Outs>,
                                                                                      std::size_t o) {
        for (std::size_t c = 0; c < G::channels; ++c)
            for (std::size_t ky = 0; ky < G::kernel; ++ky)
                for_blocks<0, G::kernel, most_columns>([&]<std::size_t Columns>(block_length<Columns>, std::size_t kx) {
                    conv2d_backward_weights_tile<G, Lanes, Outs, Columns>(x, dy, dw, o, c, ky, kx);
                });
    });
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// The bytes of scratch memory that these kernels use: convolutions of 3 x 3 with many channels go Winograd's way, the
/// others use none.
template<class G, std::size_t Lanes, class T>
constexpr std::size_t conv2d_scratch_bytes(portable) noexcept {
    if constexpr (detail::winograd_pays<G, Lanes, T>())
        return detail::winograd_scratch_bytes<G, Lanes, T>();
    else
        return 0;
}

/// True if these kernels take narrow granules.
template<class G, std::size_t Lanes, class T>
constexpr bool conv2d_takes_narrow(portable) noexcept {
    return detail::narrow_conv2d_of<G, Lanes, T> && !detail::winograd_pays<G, Lanes, T>();
}

/// y = conv(x, w) + b with zero padding: the cross-correlation that PyTorch calls a convolution.
/// x: C x H x W, w: O x C x K x K, b: O, y: O x OH x OW; x and y times Lanes.
/// Cost: one multiply-add per tap inside the image; per tap a tile of R x Q sums loads R weights and Q inputs.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void conv2d_forward([[maybe_unused]] portable policy, T const* x, T const* w, T const* b,
                                     T* y) noexcept {
    if constexpr (conv2d_takes_narrow<G, Lanes, T>(portable{}))
        if (policy.narrow != 0)
            return detail::narrow_correlate<T>(
                detail::narrow_forward_of<G>,
                detail::narrow_blocks_of<T, G::out_channels, G::channels * G::kernel * G::kernel>, policy.narrow, x, w,
                b, y);
    // [inner, inner_end): output columns all of whose taps lie inside the image
    constexpr std::size_t inner = std::min(detail::ceil_div(G::padding, 0, G::stride), G::out_width);
    constexpr std::size_t inner_end =
        std::clamp(detail::ceil_div(G::width + G::padding + 1, G::kernel, G::stride), inner, G::out_width);
    constexpr std::size_t most_columns = 6, columns_block = even_block(inner_end - inner, most_columns);
    for (std::size_t oy = 0; oy < G::out_height; ++oy) {
        auto const rows = detail::taps_inside(oy, G::height, G::kernel, G::padding, G::stride);
        for_channels<G::out_channels, accumulators / columns_block>([&]<std::size_t Outs>(block_length<Outs>,
                                                                                          std::size_t o) {
            for_blocks<inner, inner_end, most_columns>([&]<std::size_t Columns>(block_length<Columns>, std::size_t ox) {
                detail::conv2d_forward_tile<G, Lanes, Outs, Columns>(x, w, b, y, o, oy, ox, rows, {0, G::kernel});
            });
        });
        auto const border = [&](std::size_t ox, std::size_t last) {
            for (; ox < last; ++ox)
                for_channels<G::out_channels, accumulators / 2>(
                    [&]<std::size_t Outs>(block_length<Outs>, std::size_t o) {
                        detail::conv2d_forward_tile<G, Lanes, Outs, 1>(
                            x, w, b, y, o, oy, ox, rows,
                            detail::taps_inside(ox, G::width, G::kernel, G::padding, G::stride));
                    });
        };
        if constexpr (inner > 0) border(0, inner);
        if constexpr (inner_end < G::out_width) border(inner_end, G::out_width);
    }
}

/// dx = the gradient with respect to x; overwrites dx. Gathers: every input place sums the outputs it went into.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void conv2d_backward_input([[maybe_unused]] portable policy, T const* w, T const* dy, T* dx) noexcept {
    if constexpr (conv2d_takes_narrow<G, Lanes, T>(portable{}))
        if (policy.narrow != 0)
            return detail::narrow_correlate<T>(detail::narrow_backward_of<G>,
                                               detail::narrow_blocks_of<T, G::channels, G::kernel * G::kernel>,
                                               policy.narrow, dy, w + G::kernel * G::kernel - 1, nullptr, dx);
    for (std::size_t iy = 0; iy < G::height; ++iy) {
        detail::strided_place const row{(iy + G::padding) % G::stride, (iy + G::padding) / G::stride};
        auto const rows = detail::steps_inside(row, G::out_height, G::kernel, G::stride);
        [&]<std::size_t... Phase>(std::index_sequence<Phase...>) {
            (detail::conv2d_backward_input_phase<G, Lanes, Phase>(w, dy, dx, iy, row, rows), ...);
        }(std::make_index_sequence<G::stride>{});
    }
}

/// Adds the gradients with respect to w and b, summed over the lanes, to dw and db.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void conv2d_backward_weights([[maybe_unused]] portable policy, T const* x, T const* dy, T* dw,
                                              T* db) noexcept {
    if constexpr (conv2d_takes_narrow<G, Lanes, T>(portable{}))
        if (policy.narrow != 0)
            return detail::narrow_backward_weights<T>(detail::narrow_forward_of<G>,
                                                      detail::narrow_weight_blocks_of<T, G::out_channels, G::kernel>,
                                                      policy.narrow, x, dy, dw, db);
    if constexpr (detail::many_channels<G, Lanes, T>)
        detail::many_channels_backward_weights<G, Lanes>(x, dy, dw, db);
    else
        detail::few_channels_backward_weights<G, Lanes>(x, dy, dw, db);
}

// Overloads for portable_with_scratch may use its memory.

template<class G, std::size_t Lanes, class T>
void conv2d_forward(portable_with_scratch policy, T const* x, T const* w, T const* b, T* y) noexcept {
    if constexpr (detail::winograd_pays<G, Lanes, T>())
        detail::winograd_forward<G, Lanes>(x, w, b, y, static_cast<T*>(policy.scratch));
    else
        conv2d_forward<G, Lanes>(portable(policy), x, w, b, y);
}
template<class G, std::size_t Lanes, class T>
void conv2d_backward_input(portable_with_scratch policy, T const* w, T const* dy, T* dx) noexcept {
    if constexpr (detail::winograd_pays<G, Lanes, T>())
        detail::winograd_backward_input<G, Lanes>(w, dy, dx, static_cast<T*>(policy.scratch));
    else
        conv2d_backward_input<G, Lanes>(portable(policy), w, dy, dx);
}
template<class G, std::size_t Lanes, class T>
void conv2d_backward_weights(portable_with_scratch policy, T const* x, T const* dy, T* dw, T* db) noexcept {
    if constexpr (detail::winograd_pays<G, Lanes, T>())
        detail::winograd_backward_weights<G, Lanes>(x, dy, dw, db, static_cast<T*>(policy.scratch));
    else
        conv2d_backward_weights<G, Lanes>(portable(policy), x, dy, dw, db);
}

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
