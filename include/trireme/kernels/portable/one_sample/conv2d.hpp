// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/conv2d_places.hpp>
#include <trireme/kernels/portable/one_sample/matrix.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

// Convolution of one sample as matrix products. A panel holds the inputs that some rows of outputs need, once per tap:
// 64 KB wherever one row of one channel fits, on the stack, and a megabyte with its window at most. Registers run over
// outputs, or over taps for the gradient of the weights.

namespace trireme::detail::inline TRIREME_ISA {

template<class G, class T>
struct conv2d_panel {
    static constexpr std::size_t taps = G::kernel * G::kernel, pixels = G::out_height * G::out_width;
    static constexpr std::size_t all_taps = G::channels * taps;
    static constexpr std::size_t wide = G::width + 2 * G::padding;

    // A panel is for a block of channels and a block of output rows.
    static constexpr std::size_t most = 64 * 1024 / sizeof(T), row = taps * G::out_width;
    static constexpr std::size_t channels = even_block(G::channels, std::max<std::size_t>(most / row, 1));
    static constexpr std::size_t rows = even_block(G::out_height, std::max<std::size_t>(most / (row * channels), 1));

    /// Rows of the padded input that `Rows` rows of outputs look at.
    template<std::size_t Rows>
    static constexpr std::size_t window = (Rows - 1) * G::stride + G::kernel;

    /// True if the largest panel and its window have room on the stack. Else a row is so long, or a stride so much
    /// larger than the kernel, that the kernels for any lanes compute the sample.
    static constexpr bool fits = channels * (rows * row + window<rows> * wide) <= std::size_t{1024} * 1024 / sizeof(T);

    /// A copy of so many numbers is one register.
    static constexpr std::size_t tap_copy = std::bit_ceil(G::kernel);

    /// Calls f(block_length<Channels>, block_length<Rows>, channel, output row) for every panel.
    template<class F>
    [[gnu::always_inline]] static void for_panels(F const& f) noexcept {
        for_blocks<0, G::channels, channels>([&]<std::size_t Channels>(block_length<Channels> c_block, std::size_t c) {
            for_blocks<0, G::out_height, rows>(
                [&]<std::size_t Rows>(block_length<Rows> r_block, std::size_t oy) { f(c_block, r_block, c, oy); });
        });
    }

    /// to[channel][window row][wide] = the input with its padding, for Rows rows of outputs from oy on.
    template<std::size_t Channels, std::size_t Rows>
    static void copy_window(T const* x, std::size_t c, std::size_t oy, T* to) noexcept {
        for (std::size_t i = 0; i < Channels; ++i)
            for (std::size_t k = 0; k < window<Rows>; ++k, to += wide) {
                std::size_t const iy = oy * G::stride + k - G::padding; // wraps above the image
                if (G::padding > 0) std::memset(to, 0, wide * sizeof(T));
                if (iy < G::height)
                    std::memcpy(to + G::padding, x + ((c + i) * G::height + iy) * G::width, G::width * sizeof(T));
            }
    }
};

/// The output columns whose tap lies inside the image, by a column of the kernel.
template<place_range Outputs>
struct kernel_column {
    static constexpr place_range outputs = Outputs;
};

/// Calls f(kernel_column<...>, kx) for every column of the kernel. Without padding all are alike, and f is compiled
/// once.
template<class G, class F>
[[gnu::always_inline]] inline void for_kernel_columns(F const& f) noexcept {
    if constexpr (G::padding == 0)
        for (std::size_t kx = 0; kx < G::kernel; ++kx) f(kernel_column<place_range{0, G::out_width}>{}, kx);
    else
        [&]<std::size_t... Kx>(std::index_sequence<Kx...>) {
            (f(kernel_column<outputs_inside(Kx, G::width, G::out_width, G::padding, G::stride)>{}, Kx), ...);
        }(std::make_index_sequence<G::kernel>{});
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = conv(x, w) + b with zero padding. x: C x H x W, w: O x C x K x K, b: O, y: O x OH x OW.
/// Cost: a copy of the inputs per tap; a multiply-add per tap, padding included.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1 && detail::conv2d_panel<G, T>::fits)
TRIREME_NOINLINE void conv2d_forward(portable, T const* x, T const* w, T const* b, T* y) noexcept {
    using panel = detail::conv2d_panel<G, T>;
    panel::for_panels([&]<std::size_t Channels, std::size_t Rows>(block_length<Channels>, block_length<Rows>,
                                                                  std::size_t c, std::size_t oy) {
        constexpr std::size_t outputs = Rows * G::out_width;
        alignas(64) T window[Channels * panel::template window<Rows> * panel::wide];
        alignas(64) T inputs[Channels * panel::taps * outputs]; // [channel, ky, kx][output]
        panel::template copy_window<Channels, Rows>(x, c, oy, window);
        T* to = inputs;
        for (std::size_t i = 0; i < Channels; ++i)
            for (std::size_t ky = 0; ky < G::kernel; ++ky)
                for (std::size_t kx = 0; kx < G::kernel; ++kx)
                    for (std::size_t r = 0; r < Rows; ++r, to += G::out_width) {
                        auto const* const from =
                            window + (i * panel::template window<Rows> + r * G::stride + ky) * panel::wide + kx;
                        if constexpr (G::stride == 1)
                            copy_numbers<G::out_width>(from, to);
                        else
                            for (std::size_t ox = 0; ox < G::out_width; ++ox) to[ox] = from[ox * G::stride];
                    }
        constexpr detail::product_strides strides{panel::all_taps, 1, outputs, panel::pixels};
        T const* const weights = w + c * panel::taps;
        if (c == 0)
            detail::matrix_product<G::out_channels, outputs, strides, detail::into::overwrite>(
                weights, inputs, Channels * panel::taps, b, y + oy * G::out_width);
        else
            detail::matrix_product<G::out_channels, outputs, strides, detail::into::add>(
                weights, inputs, Channels * panel::taps, static_cast<T const*>(nullptr), y + oy * G::out_width);
    });
}

/// dx = the gradient with respect to x; overwrites dx. Scatters: the gradients of all taps of a panel, then their sums.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1 && detail::conv2d_panel<G, T>::fits)
TRIREME_NOINLINE void conv2d_backward_input(portable, T const* w, T const* dy, T* dx) noexcept {
    using panel = detail::conv2d_panel<G, T>;
    std::memset(dx, 0, G::channels * G::height * G::width * sizeof(T));
    panel::for_panels([&]<std::size_t Channels, std::size_t Rows>(block_length<Channels>, block_length<Rows>,
                                                                  std::size_t c, std::size_t oy) {
        constexpr std::size_t outputs = Rows * G::out_width;
        alignas(64) T gradients[Channels * panel::taps * outputs]; // [channel, ky, kx][output]
        constexpr detail::product_strides strides{1, panel::all_taps, panel::pixels, outputs};
        detail::matrix_product<Channels * panel::taps, outputs, strides, detail::into::overwrite>(
            w + c * panel::taps, dy + oy * G::out_width, G::out_channels, static_cast<T const*>(nullptr), gradients);
        for (std::size_t i = 0; i < Channels; ++i)
            for (std::size_t ky = 0; ky < G::kernel; ++ky)
                detail::for_kernel_columns<G>([&]<class Column>(Column, std::size_t kx) {
                    constexpr std::size_t first = Column::outputs.begin, last = Column::outputs.end;
                    T const* from = gradients + ((i * G::kernel + ky) * G::kernel + kx) * outputs;
                    for (std::size_t r = 0; r < Rows; ++r, from += G::out_width) {
                        std::size_t const iy = (oy + r) * G::stride + ky - G::padding; // wraps above the image
                        if (iy >= G::height) continue;
                        T* const to = dx + ((c + i) * G::height + iy) * G::width + first * G::stride + kx - G::padding;
                        if constexpr (G::stride == 1)
                            add_numbers<last - first>(from + first, to);
                        else
                            for (std::size_t ox = first; ox < last; ++ox) to[(ox - first) * G::stride] += from[ox];
                    }
                });
    });
}

/// Adds the gradients with respect to w and b to dw and db.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1 && detail::conv2d_panel<G, T>::fits)
TRIREME_NOINLINE void conv2d_backward_weights(portable, T const* x, T const* dy, T* dw, T* db) noexcept {
    using panel = detail::conv2d_panel<G, T>;
    for (std::size_t o = 0; o < G::out_channels; ++o) {
        using vector = lane_vector<T, full_register<T>>;
        auto sum = vector::all(0);
        for_registers<vector>(panel::pixels, [&](std::size_t i, auto count) {
            sum = sum + vector::load(dy + o * panel::pixels + i, count);
        });
        db[o] += sum.sum();
    }
    panel::for_panels([&]<std::size_t Channels, std::size_t Rows>(block_length<Channels>, block_length<Rows>,
                                                                  std::size_t c, std::size_t oy) {
        // Every row of a kernel is copied as a whole register. The numbers behind its end are overwritten by the next
        // row; the last one's stand behind the panel.
        constexpr std::size_t outputs = Rows * G::out_width, beyond = panel::tap_copy - G::kernel;
        constexpr std::size_t window_size = Channels * panel::template window<Rows> * panel::wide;
        alignas(64) T window[window_size + beyond];
        alignas(64) T inputs[outputs * Channels * panel::taps + beyond]; // [output][channel, ky, kx]
        panel::template copy_window<Channels, Rows>(x, c, oy, window);
        std::memset(window + window_size, 0, beyond * sizeof(T));
        T* to = inputs;
        for (std::size_t r = 0; r < Rows; ++r)
            for (std::size_t ox = 0; ox < G::out_width; ++ox)
                for (std::size_t i = 0; i < Channels; ++i) {
                    auto const* const from =
                        window + (i * panel::template window<Rows> + r * G::stride) * panel::wide + ox * G::stride;
                    for (std::size_t ky = 0; ky < G::kernel; ++ky, to += G::kernel)
                        std::memcpy(to, from + ky * panel::wide, panel::tap_copy * sizeof(T));
                }
        constexpr detail::product_strides strides{panel::pixels, 1, Channels * panel::taps, panel::all_taps};
        detail::matrix_product<G::out_channels, Channels * panel::taps, strides, detail::into::add>(
            dy + oy * G::out_width, inputs, outputs, static_cast<T const*>(nullptr), dw + c * panel::taps);
    });
}

} // namespace trireme::inline TRIREME_ISA
