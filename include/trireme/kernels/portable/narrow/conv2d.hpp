// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/core/pack.hpp>
#include <trireme/core/units.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/portable/conv2d_places.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

// Convolutions of stride 1 on narrow granules. A register holds neighbouring columns, with all samples of each, so that
// the next column's register begins `lanes` numbers later: no shuffle. The number of lanes and the sizes of the image
// are values; machine code is shared by all layers with as many output channels and as large a kernel.

namespace trireme::detail::inline TRIREME_ISA {

/// Sizes of a correlation of images with narrow granules: y[o] = sum over channels c, rows ky and columns kx of the
/// kernel of weight[o * Step + c * channel_step + (ky * kernel + kx) * tap] * x[c][oy + ky - padding][ox + kx -
/// padding]. A row of y has out_width columns.
struct narrow_correlation {
    std::size_t channels, height, width, padding, kernel, out_height, out_width;
    std::size_t channel_step;
    std::ptrdiff_t tap;
};

/// Rows of some channels of an image with zeros around them, which kernels read: a copy on the stack, or the image
/// itself where no zeros are needed.
template<class T>
class narrow_panel {
public:
    /// Bytes of the copy.
    static constexpr std::size_t most = 96 * 1024;

    /// True if the copy has room for the rows that one row of outputs reads, in one channel.
    static constexpr bool fits(std::size_t width, std::size_t padding, std::size_t kernel, std::size_t lanes) noexcept {
        return kernel * (width + 2 * padding) * lanes * sizeof(T) <= most;
    }

    /// `most_rows`: of outputs, at a time.
    narrow_panel(narrow_correlation const& sizes, T const* x, std::size_t lanes,
                 std::size_t most_rows = npos / 2) noexcept
        : sizes_(sizes), image_(x), pitch_((sizes.width + 2 * sizes.padding) * lanes), lanes_(lanes) {
        std::size_t const room = most / sizeof(T);
        if (sizes.padding != 0) most_rows = std::min(most_rows, room / pitch_ - (sizes.kernel - 1));
        rows_ = even_block(sizes.out_height, std::min(sizes.out_height, most_rows));
        if (sizes.padding == 0) return;
        channels_ = even_block(sizes.channels, std::max<std::size_t>(room / ((rows_ + sizes.kernel - 1) * pitch_), 1));
    }

    /// Calls f(first channel, channels, first row of outputs, behind the last one) for every panel.
    template<class F>
    [[gnu::always_inline]] void for_panels(F const& f) noexcept {
        for (std::size_t c = 0; c < sizes_.channels; c += channels_)
            for (std::size_t oy = 0; oy < sizes_.out_height; oy += rows_) {
                auto const channels = std::min(channels_, sizes_.channels - c);
                auto const end = std::min(oy + rows_, sizes_.out_height);
                copy(c, channels, oy, end);
                f(c, channels, oy, end);
            }
    }

    /// Numbers from a row to the next, and from a channel to the next.
    std::size_t pitch() const noexcept { return pitch_; }
    std::size_t plane() const noexcept { return plane_; }
    /// The row that output row oy reads with the first row of the kernel, in the panel's first channel.
    T const* row(std::size_t oy) const noexcept { return from_ + (oy - first_) * pitch_; }

private:
    void copy(std::size_t c, std::size_t channels, std::size_t oy, std::size_t end) noexcept {
        first_ = oy;
        if (sizes_.padding == 0) {
            plane_ = sizes_.height * pitch_;
            from_ = image_ + c * plane_ + oy * pitch_;
            return;
        }
        std::size_t const rows = end - oy + sizes_.kernel - 1, own = sizes_.width * lanes_;
        std::size_t const beside = sizes_.padding * lanes_;
        plane_ = rows * pitch_;
        from_ = copy_;
        T* to = copy_;
        for (std::size_t i = 0; i < channels; ++i)
            for (std::size_t r = 0; r < rows; ++r, to += pitch_) {
                std::size_t const iy = oy + r - sizes_.padding; // wraps above the image
                if (iy + 1 > sizes_.height + 1) continue;       // no kernel reads farther than one row beside the image
                if (iy >= sizes_.height) {
                    std::memset(to, 0, pitch_ * sizeof(T));
                    continue;
                }
                std::memset(to, 0, beside * sizeof(T));
                std::memcpy(to + beside, image_ + ((c + i) * sizes_.height + iy) * own, own * sizeof(T));
                std::memset(to + beside + own, 0, beside * sizeof(T));
            }
    }

    narrow_correlation const& sizes_;
    T const* image_;
    std::size_t pitch_, plane_ = 0, lanes_;
    std::size_t rows_ = 0, channels_ = npos / 2, first_ = 0;
    T const* from_ = nullptr;
    alignas(64) T copy_[most / sizeof(T)];
};

/// The taps that a tile of outputs sums over, and how far they lie from one another, in x and among the weights.
struct narrow_taps {
    std::size_t channels, rows, columns;
    std::size_t plane, pitch, lanes;
    std::ptrdiff_t channel_step, row_step, tap;
};

/// One register of columns in two rows of outputs, for Outs output channels: y = sums + bias, or y += sums if `bias` is
/// null. x and w: at the first tap. `second`, `second_out`: how far the other row lies from the first, in x and in y; 0
/// if there is none. `back`: numbers at the register's begin that have been computed already.
template<std::size_t Outs, std::size_t Step, class T>
TRIREME_NOINLINE void narrow_correlation_tile(narrow_taps const& taps, T const* x, std::size_t second, T const* w,
                                              T const* bias, std::size_t next_bias, T* y, std::size_t out_plane,
                                              std::size_t second_out, std::size_t back) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    vector sum[Outs][2];
#pragma GCC unroll 32
    for (std::size_t i = 0; i < Outs; ++i) sum[i][0] = sum[i][1] = vector::all(0);
    std::size_t const lanes = taps.lanes, columns = taps.columns;
    auto const next = taps.tap;
    for (std::size_t c = 0; c < taps.channels; ++c, x += taps.plane, w += taps.channel_step) {
        T const *row = x, *row_weights = w;
        for (auto ky = taps.rows; ky > 0; --ky, row += taps.pitch, row_weights += taps.row_step) {
            T const *from = row, *weight = row_weights;
            for (auto kx = columns; kx > 0; --kx, from += lanes, weight += next) {
                auto const above = vector::load(from), below = vector::load(from + second);
#pragma GCC unroll 32
                for (std::size_t i = 0; i < Outs; ++i) {
                    auto const factor = vector::all(weight[i * Step]);
                    sum[i][0] = multiply_add(factor, above, sum[i][0]);
                    sum[i][1] = multiply_add(factor, below, sum[i][1]);
                }
            }
        }
    }
    if (bias != nullptr) {
#pragma GCC unroll 32
        for (std::size_t i = 0; i < Outs; ++i) {
            auto const start = vector::all(bias[i * next_bias]);
            (start + sum[i][0]).store(y + i * out_plane);
            (start + sum[i][1]).store(y + i * out_plane + second_out);
        }
        return;
    }
    if (back == 0) {
#pragma GCC unroll 32
        for (std::size_t i = 0; i < Outs; ++i) {
            T* const to = y + i * out_plane;
            auto const above = vector::load(to) + sum[i][0], below = vector::load(to + second_out) + sum[i][1];
            above.store(to);
            below.store(to + second_out); // the same once more, if there is one row
        }
        return;
    }
    T numbers[2 * Outs][vector::size];
#pragma GCC unroll 32
    for (std::size_t i = 0; i < Outs; ++i) {
        sum[i][0].store(numbers[2 * i]);
        sum[i][1].store(numbers[2 * i + 1]);
    }
    for (std::size_t i = 0; i < 2 * Outs; ++i)
        for (std::size_t n = back; n < vector::size && (i % 2 == 0 || second_out != 0); ++n)
            y[i / 2 * out_plane + i % 2 * second_out + n] += numbers[i][n];
}

/// Tiles for `outs` output channels, `block` at a time, and for those that are left: by pointers, so that all layers
/// share the loops around them.
template<class T>
struct narrow_output_blocks {
    using tile = decltype(&narrow_correlation_tile<1, 1, T>);
    std::size_t outs, block, step;
    tile of_block, of_rest;
};
template<class T, std::size_t Outs, std::size_t Step>
inline constexpr narrow_output_blocks<T> narrow_blocks_of = [] {
    constexpr std::size_t block = dividing_block(Outs, 8), rest = Outs % block;
    return narrow_output_blocks<T>{Outs,
                                   block,
                                   Step,
                                   &narrow_correlation_tile<block, Step, T>,
                                   &narrow_correlation_tile < rest != 0 ? rest : block,
                                   Step,
                                   T > };
}();

/// y = the correlation, which begins with `bias`, or with zero if it is null; overwrites y.
template<class T>
TRIREME_NOINLINE void narrow_correlate(narrow_correlation const& sizes, narrow_output_blocks<T> const& blocks,
                                       std::size_t lanes, T const* x, T const* w, T const* bias, T* y) noexcept {
    constexpr std::size_t width = full_register<T>;
    std::size_t const numbers = sizes.out_width * lanes, out_plane = sizes.out_height * numbers;
    auto const taps = [&](std::size_t first, std::size_t last, std::size_t size) { // of places first to last
        return place_range{sizes.padding > last ? sizes.padding - last : 0,
                           std::min(sizes.kernel, size + sizes.padding - first)};
    };
    T const none = 0;
    narrow_panel<T> panel(sizes, x, lanes);
    panel.for_panels([&](std::size_t c, std::size_t channels, std::size_t begin, std::size_t end) {
        for (std::size_t oy = begin; oy < end; oy += 2) {
            bool const two = oy + 1 < end;
            auto const rows = taps(oy, oy + (two ? 1 : 0), sizes.height);
            for (std::size_t at = 0; at < numbers; at += width) {
                std::size_t const place = std::min(at, numbers - width);
                auto const columns = taps(place / lanes, (place + width - 1) / lanes, sizes.width);
                narrow_taps const sums{channels,
                                       rows.end - rows.begin,
                                       columns.end - columns.begin,
                                       panel.plane(),
                                       panel.pitch(),
                                       lanes,
                                       static_cast<std::ptrdiff_t>(sizes.channel_step),
                                       static_cast<std::ptrdiff_t>(sizes.kernel) * sizes.tap,
                                       sizes.tap};
                T const* const from = panel.row(oy) + rows.begin * panel.pitch() + columns.begin * lanes + place;
                T const* const weights =
                    w + c * sizes.channel_step +
                    static_cast<std::ptrdiff_t>(rows.begin * sizes.kernel + columns.begin) * sizes.tap;
                T* const to = y + oy * numbers + place;
                for (std::size_t o = 0; o < blocks.outs; o += blocks.block)
                    (o + blocks.block <= blocks.outs ? blocks.of_block : blocks.of_rest)(
                        sums, from, two ? panel.pitch() : 0, weights + o * blocks.step,
                        c != 0            ? nullptr
                        : bias != nullptr ? bias + o
                                          : &none,
                        bias != nullptr ? 1 : 0, to + o * out_plane, out_plane, two ? numbers : 0, at - place);
            }
        }
    });
}

/// The sum of each row, all of them by log2(N) rounds of shuffles; in the order of lane_vector::sum. `rows` is used up.
template<std::size_t D, class T, std::size_t N>
[[gnu::always_inline]] inline lane_vector<T, N> sum_of_each(lane_vector<T, N> (&rows)[N]) noexcept {
    if constexpr (D == 0) {
        return rows[0];
    } else {
        [&]<std::size_t... Row>(std::index_sequence<Row...>) {
            ((swap_blocks<D>(rows[Row], rows[Row + D]), rows[Row] = rows[Row] + rows[Row + D]), ...);
        }(std::make_index_sequence<D>{});
        return sum_of_each<D / 2>(rows);
    }
}

/// Gradients by Outs x Columns weights of one channel and one row of the kernel; see conv2d_backward_weights_tile.
/// `x`: the row of the panel that the first of `rows` rows of outputs reads.
template<std::size_t Outs, std::size_t Columns, class T>
TRIREME_NOINLINE void narrow_weights_tile(T const* x, std::size_t pitch, T const* dy, std::size_t out_plane,
                                          std::size_t numbers, std::size_t rows, std::size_t lanes, T* dw,
                                          std::size_t step) noexcept {
    constexpr std::size_t width = full_register<T>;
    using vector = lane_vector<T, width>;
    vector sum[Outs][Columns];
#pragma GCC unroll 32
    for (std::size_t i = 0; i < Outs; ++i)
#pragma GCC unroll 32
        for (std::size_t j = 0; j < Columns; ++j) sum[i][j] = vector::all(0);
    // the last register of a row begins earlier, so that it ends where the row ends; what it shares does not count
    // twice
    std::size_t const whole = numbers / width * width, last = numbers - width;
    T counts[width];
    for (std::size_t n = 0; n < width; ++n) counts[n] = n + last < whole ? T{0} : T{1};
    auto const none = vector::all(0);
    auto const some = vector::load(counts) != none;
    for (std::size_t r = 0; r < rows; ++r, x += pitch, dy += numbers) {
        for (std::size_t at = 0; at < whole; at += width) {
            vector input[Columns];
#pragma GCC unroll 32
            for (std::size_t j = 0; j < Columns; ++j) input[j] = vector::load(x + at + j * lanes);
#pragma GCC unroll 32
            for (std::size_t i = 0; i < Outs; ++i) {
                auto const gradient = vector::load(dy + i * out_plane + at);
#pragma GCC unroll 32
                for (std::size_t j = 0; j < Columns; ++j) sum[i][j] = multiply_add(gradient, input[j], sum[i][j]);
            }
        }
        if (whole == numbers) continue;
        vector input[Columns];
#pragma GCC unroll 32
        for (std::size_t j = 0; j < Columns; ++j) input[j] = vector::load(x + last + j * lanes);
#pragma GCC unroll 32
        for (std::size_t i = 0; i < Outs; ++i) {
            auto const gradient = vector::select(some, vector::load(dy + i * out_plane + last), none);
#pragma GCC unroll 32
            for (std::size_t j = 0; j < Columns; ++j) sum[i][j] = multiply_add(gradient, input[j], sum[i][j]);
        }
    }
    T sums[round_up(Outs * Columns, width)];
#pragma GCC unroll 32
    for (std::size_t first = 0; first < Outs * Columns; first += width) {
        vector group[width];
#pragma GCC unroll 32
        for (std::size_t n = 0; n < width; ++n)
            group[n] = first + n < Outs * Columns ? sum[(first + n) / Columns % Outs][(first + n) % Columns] : none;
        sum_of_each<width / 2>(group).store(sums + first);
    }
#pragma GCC unroll 32
    for (std::size_t i = 0; i < Outs; ++i) add_numbers<Columns>(sums + i * Columns, dw + i * step);
}

/// Tiles for the gradients of `outs` x `columns` weights, likewise.
template<class T>
struct narrow_weight_blocks {
    using tile = decltype(&narrow_weights_tile<1, 1, T>);
    std::size_t outs, block, columns;
    tile of_block[2], of_rest[2]; ///< those of a block of columns, and of the columns that are left
};
template<class T, std::size_t Outs, std::size_t Kernel>
inline constexpr narrow_weight_blocks<T> narrow_weight_blocks_of = [] {
    constexpr std::size_t columns = even_block(Kernel, 6), left = Kernel % columns != 0 ? Kernel % columns : columns;
    constexpr std::size_t block = dividing_block(Outs, accumulators / columns);
    constexpr std::size_t rest = Outs % block != 0 ? Outs % block : block;
    return narrow_weight_blocks<T>{Outs,
                                   block,
                                   columns,
                                   {&narrow_weights_tile<block, columns, T>, &narrow_weights_tile<block, left, T>},
                                   {&narrow_weights_tile<rest, columns, T>, &narrow_weights_tile<rest, left, T>}};
}();

/// Adds the gradients by w and b to dw and db. Sizes: those of forward.
template<class T>
TRIREME_NOINLINE void narrow_backward_weights(narrow_correlation const& sizes, narrow_weight_blocks<T> const& blocks,
                                              std::size_t lanes, T const* x, T const* dy, T* dw, T* db) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    std::size_t const numbers = sizes.out_width * lanes, out_plane = sizes.out_height * numbers;
    std::size_t const kernel = sizes.kernel, step = sizes.channels * kernel * kernel;
    // the gradients of a block of outputs stay in the nearest cache for all rows of the kernel
    std::size_t const most_rows = std::max<std::size_t>(16 * 1024 / (blocks.block * numbers * sizeof(T)), 1);
    narrow_panel<T> panel(sizes, x, lanes, most_rows);
    panel.for_panels([&](std::size_t first, std::size_t channels, std::size_t begin, std::size_t end) {
        for (std::size_t o = 0; o < blocks.outs; o += blocks.block) {
            auto const outs = std::min(blocks.block, blocks.outs - o);
            auto const& tiles = outs == blocks.block ? blocks.of_block : blocks.of_rest;
            for (std::size_t i = o; first == 0 && i < o + outs; ++i) {
                auto sum = vector::all(0);
                for_registers<vector>((end - begin) * numbers, [&](std::size_t at, auto count) {
                    sum = sum + vector::load(dy + i * out_plane + begin * numbers + at, count);
                });
                db[i] += sum.sum();
            }
            for (std::size_t c = 0; c < channels; ++c)
                for (std::size_t ky = 0; ky < kernel; ++ky) {
                    auto const all = outputs_inside(ky, sizes.height, sizes.out_height, sizes.padding, 1);
                    auto const rows = common(all, {begin, end});
                    if (rows.begin == rows.end) continue;
                    auto const* const from = panel.row(rows.begin) + c * panel.plane() + ky * panel.pitch();
                    auto const* const gradients = dy + o * out_plane + rows.begin * numbers;
                    auto* const to = dw + o * step + ((first + c) * kernel + ky) * kernel;
                    for (std::size_t kx = 0; kx < kernel; kx += blocks.columns)
                        tiles[kx + blocks.columns <= kernel ? 0 : 1](from + kx * lanes, panel.pitch(), gradients,
                                                                     out_plane, numbers, rows.end - rows.begin, lanes,
                                                                     to + kx, step);
                }
        }
    });
}

/// The convolutions that have kernels for narrow granules: of stride 1, with rows of outputs and of inputs that fill a
/// register, and less padding than the kernel is wide.
template<class T>
constexpr bool narrow_conv2d(std::size_t width, std::size_t kernel, std::size_t padding, std::size_t stride) noexcept {
    constexpr std::size_t half = full_register<T> / 2, columns = 4; // a quarter of a register has so many columns
    if (stride != 1 || padding >= kernel || width < columns || width + 2 * padding + 1 < kernel + columns) return false;
    return narrow_panel<T>::fits(width, padding, kernel, half) &&
           narrow_panel<T>::fits(width + 2 * padding + 1 - kernel, kernel - 1 - padding, kernel, half);
}

template<class G, std::size_t Lanes, class T>
inline constexpr bool narrow_conv2d_of =
    Lanes >= 8 && Lanes == full_register<T> && narrow_conv2d<T>(G::width, G::kernel, G::padding, G::stride);

template<class G>
inline constexpr narrow_correlation narrow_forward_of{
    G::channels, G::height, G::width, G::padding, G::kernel, G::out_height, G::out_width, G::kernel * G::kernel, 1};
/// Backward is the correlation of dy with the weights turned round.
template<class G>
inline constexpr narrow_correlation narrow_backward_of{G::out_channels,
                                                       G::out_height,
                                                       G::out_width,
                                                       G::kernel - 1 - G::padding,
                                                       G::kernel,
                                                       G::height,
                                                       G::width,
                                                       G::channels * G::kernel * G::kernel,
                                                       -1};

} // namespace trireme::detail::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
