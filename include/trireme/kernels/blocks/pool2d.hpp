// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/blocks/policy.hpp>
#include <trireme/kernels/blocks/support.hpp>
#include <trireme/kernels/geometry.hpp>

#include <cstddef>
#include <cstdint>

// One thread per value that is written; each looks at the few values that it needs, which its neighbours share in the
// first cache. Every kernel reads and writes each value about once: memory is what it waits for.
namespace trireme::blocks {

/// From a value to that of the next position of its channel.
template<class G>
inline constexpr u32 position_step = G::channels_last ? G::channels : 1;

template<class G>
struct pool2d_sizes {
    static constexpr u32 height = G::height, width = G::width, kernel = G::kernel, stride = G::stride;
    static constexpr u32 out_height = G::out_height, out_width = G::out_width;
    static constexpr u32 inputs = height * width, outputs = out_height * out_width;
    static constexpr u32 step = position_step<G>;
};

/// The position of value i in a channel of a sample, a plane of Height x Width. `Step` values lie side by side for
/// every position: one, where the planes lie one behind the other, or that of each channel.
template<u32 Height, u32 Width, u32 Step>
struct plane_place {
    std::size_t group; ///< of planes
    u32 row, column, in_group;

    TRIREME_HOST_DEVICE explicit plane_place(std::size_t i) {
        std::size_t const position = i / Step;
        in_group = static_cast<u32>(i - position * Step);
        group = position / (Height * Width);
        auto const in_plane = static_cast<u32>(position - group * (Height * Width));
        row = in_plane / Width;
        column = in_plane - row * Width;
    }
    /// The first value of that plane, where planes have so many positions.
    TRIREME_HOST_DEVICE std::size_t plane(u32 positions) const { return group * positions * Step + in_group; }
};

/// The windows that see a row, or a column: from `first` to before `end`.
template<u32 Kernel, u32 Stride, u32 Windows>
struct windows_of {
    u32 first, end;

    TRIREME_HOST_DEVICE explicit windows_of(u32 at) {
        first = at < Kernel ? 0 : (at - Kernel) / Stride + 1;
        end = at / Stride + 1;
        if (end > Windows) end = Windows;
    }
};

/// A window's maximum has a value, and a place among the window's values, row by row: that of the first one, or of the
/// last NaN, as PyTorch has it.
template<class G, class T>
struct window_maximum {
    accumulate_t<T> value;
    u32 place = 0;

    TRIREME_HOST_DEVICE window_maximum(T const* plane, u32 row, u32 column) {
        using size = pool2d_sizes<G>;
        T const* const window = plane + (row * size::stride * size::width + column * size::stride) * size::step;
        value = static_cast<accumulate_t<T>>(window[0]);
        for (u32 ky = 0; ky < size::kernel; ++ky)
            for (u32 kx = 0; kx < size::kernel; ++kx) {
                auto const here = static_cast<accumulate_t<T>>(window[(ky * size::width + kx) * size::step]);
                if (here > value || here != here) {
                    value = here;
                    place = ky * size::kernel + kx;
                }
            }
    }
};

template<class G, class F, class T>
struct avg_pool2d_value {
    using size = pool2d_sizes<G>;
    T const* x;
    T* y;

    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        plane_place<size::out_height, size::out_width, size::step> const at(i);
        T const* const window =
            x + at.plane(size::inputs) + (at.row * size::stride * size::width + at.column * size::stride) * size::step;
        accumulate_t<T> sum = 0;
        for (u32 ky = 0; ky < size::kernel; ++ky)
            for (u32 kx = 0; kx < size::kernel; ++kx)
                sum += static_cast<accumulate_t<T>>(window[(ky * size::width + kx) * size::step]);
        y[i] = static_cast<T>(F::value(sum / static_cast<accumulate_t<T>>(size::kernel * size::kernel)));
    }
};

template<class G, class F, class T>
struct avg_pool2d_gradient {
    using size = pool2d_sizes<G>;
    T const* dy;
    T* dx;
    backward_end<F, T> end;

    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        plane_place<size::height, size::width, size::step> const at(i);
        windows_of<size::kernel, size::stride, size::out_height> const rows(at.row);
        windows_of<size::kernel, size::stride, size::out_width> const columns(at.column);
        T const* const plane = dy + at.plane(size::outputs);
        accumulate_t<T> sum = 0;
        for (u32 row = rows.first; row < rows.end; ++row)
            for (u32 column = columns.first; column < columns.end; ++column)
                sum += static_cast<accumulate_t<T>>(plane[(row * size::out_width + column) * size::step]);
        dx[i] = static_cast<T>(end(sum / static_cast<accumulate_t<T>>(size::kernel * size::kernel), 0, i));
    }
};

template<class G, class F, class T>
struct max_pool2d_value {
    using size = pool2d_sizes<G>;
    T const* x;
    T* y;
    std::uint8_t* places; ///< of the maxima in their windows, to be written; or null

    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        plane_place<size::out_height, size::out_width, size::step> const at(i);
        window_maximum<G, T> const largest(x + at.plane(size::inputs), at.row, at.column);
        y[i] = static_cast<T>(F::value(largest.value));
        if (places != nullptr) places[i] = static_cast<std::uint8_t>(largest.place);
    }
};

/// Functor saved_places reads the places of the maxima that forward has left: a byte for each window.
template<class G, class T>
struct saved_places {
    using size = pool2d_sizes<G>;
    static_assert(size::kernel <= 16, "a place in a window is a byte");
    std::uint8_t const* places;

    TRIREME_HOST_DEVICE u32 operator()(std::size_t first_window, std::size_t, u32 row, u32 column) const {
        return places[first_window + (row * size::out_width + column) * size::step];
    }
};

/// Functor searched_places looks for each maximum once more in its window.
template<class G, class T>
struct searched_places {
    T const* x;

    TRIREME_HOST_DEVICE u32 operator()(std::size_t, std::size_t first_input, u32 row, u32 column) const {
        return window_maximum<G, T>(x + first_input, row, column).place;
    }
};

template<class G, class F, class T, class Places>
struct max_pool2d_gradient {
    using size = pool2d_sizes<G>;
    Places place_of;
    T const* dy;
    T* dx;
    backward_end<F, T> end;

    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        plane_place<size::height, size::width, size::step> const at(i);
        windows_of<size::kernel, size::stride, size::out_height> const rows(at.row);
        windows_of<size::kernel, size::stride, size::out_width> const columns(at.column);
        std::size_t const first_input = at.plane(size::inputs), first_window = at.plane(size::outputs);
        accumulate_t<T> sum = 0;
        for (u32 row = rows.first; row < rows.end; ++row)
            for (u32 column = columns.first; column < columns.end; ++column) {
                u32 const here = (at.row - row * size::stride) * size::kernel + (at.column - column * size::stride);
                if (place_of(first_window, first_input, row, column) == here)
                    sum +=
                        static_cast<accumulate_t<T>>(dy[first_window + (row * size::out_width + column) * size::step]);
            }
        dx[i] = static_cast<T>(end(sum, 0, i));
    }
};

/// The mean of every channel of every sample: `members` threads add up its values, the first of them what the others
/// have. Neighbouring threads read what lies side by side.
template<class G, class T>
struct channel_mean {
    static constexpr u32 positions = G::positions, step = position_step<G>;
    static constexpr u32 members = positions >= 32 ? 32 : positions >= 8 ? 8 : 1, threads = 256;
    static constexpr u32 channels_of_block = threads / members;
    static constexpr int phase_count = 2;
    struct shared {
        accumulate_t<T> part[channels_of_block][members];
    };
    using own = nothing_kept;

    T const* x;
    T* y;
    std::size_t channels; ///< of all samples

    u32 blocks() const noexcept { return static_cast<u32>((channels + channels_of_block - 1) / channels_of_block); }
    TRIREME_HOST_DEVICE int phases() const { return phase_count; }
    TRIREME_HOST_DEVICE void phase(int k, block_place at, shared& s, own&) const {
        u32 const column = step == 1 ? at.thread / members : at.thread % channels_of_block;
        u32 const member = step == 1 ? at.thread % members : at.thread / channels_of_block;
        std::size_t const channel = std::size_t{at.block} * channels_of_block + column;
        if (channel >= channels) return;
        accumulate_t<T> sum = 0;
        if (k == 0) {
            T const* const first = x + (channel / step * positions * step + channel % step);
            for (u32 i = member; i < positions; i += members) sum += static_cast<accumulate_t<T>>(first[i * step]);
            s.part[column][member] = sum;
        } else if (member == 0) {
            for (u32 i = 0; i < members; ++i) sum += s.part[column][i];
            y[channel] = static_cast<T>(sum / static_cast<accumulate_t<T>>(positions));
        }
    }
};

template<class G, class T>
struct channel_mean_gradient {
    static constexpr u32 positions = G::positions;
    T const* dy;
    T* dx;
    TRIREME_HOST_DEVICE void operator()(std::size_t i) const {
        plane_place<1, positions, position_step<G>> const at(i);
        dx[i] = static_cast<T>(static_cast<accumulate_t<T>>(dy[at.plane(1)]) / static_cast<accumulate_t<T>>(positions));
    }
};

template<class G, class Stream>
std::size_t pool2d_outputs(block_kernels<Stream> const& k) {
    return k.samples() * G::channels * G::out_height * G::out_width;
}
template<class G, class Stream>
std::size_t pool2d_inputs(block_kernels<Stream> const& k) {
    return k.samples() * G::channels * G::height * G::width;
}

} // namespace trireme::blocks

namespace trireme {

/// y = the mean of each window. Rows and columns beyond the last full window do not count.
template<class G, std::size_t Lanes, class Stream, class T>
void avg_pool2d_forward(block_kernels<Stream> const& k, T const* x, T* y) {
    k.each(blocks::pool2d_outputs<G>(k), blocks::avg_pool2d_value<G, identity_function, T>{x, y});
}
template<class G, std::size_t Lanes, accelerator_kernels K, class F, class T>
void avg_pool2d_forward(with_function<K, F, T> const& k, T const* x, T* y) {
    k.each(blocks::pool2d_outputs<G>(k), blocks::avg_pool2d_value<G, F, T>{x, y});
}

/// dx = the gradient with respect to x; overwrites dx, with 0 where no window looks.
template<class G, std::size_t Lanes, class Stream, class T>
void avg_pool2d_backward_input(block_kernels<Stream> const& k, T const* dy, T* dx) {
    k.each(blocks::pool2d_inputs<G>(k), blocks::avg_pool2d_gradient<G, identity_function, T>{dy, dx, {nullptr}});
}
template<class G, std::size_t Lanes, accelerator_kernels K, class F, class T>
void avg_pool2d_backward_input(with_function<K, F, T> const& k, T const* dy, T* dx) {
    k.each(blocks::pool2d_inputs<G>(k), blocks::avg_pool2d_gradient<G, F, T>{dy, dx, {k.input()}});
}

/// y = the maximum of each window; a NaN in the window is the maximum. places[i] = the place of the maximum y[i] among
/// the values of its window, of at most 16 x 16, row by row, unless `places` is null.
template<class G, std::size_t Lanes, class Stream, class T>
void max_pool2d_forward(block_kernels<Stream> const& k, T const* x, T* y, std::uint8_t* places = nullptr) {
    k.each(blocks::pool2d_outputs<G>(k), blocks::max_pool2d_value<G, identity_function, T>{x, y, places});
}
template<class G, std::size_t Lanes, accelerator_kernels K, class F, class T>
void max_pool2d_forward(with_function<K, F, T> const& k, T const* x, T* y, std::uint8_t* places = nullptr) {
    k.each(blocks::pool2d_outputs<G>(k), blocks::max_pool2d_value<G, F, T>{x, y, places});
}

/// dx = the gradient with respect to x; overwrites dx. Among equal maxima the first in row-major order gets it all.
/// `places`: as forward has written them.
template<class G, std::size_t Lanes, class Stream, class T>
void max_pool2d_backward_input(block_kernels<Stream> const& k, std::uint8_t const* places, T const* dy, T* dx) {
    using kernel = blocks::max_pool2d_gradient<G, identity_function, T, blocks::saved_places<G, T>>;
    k.each(blocks::pool2d_inputs<G>(k), kernel{{places}, dy, dx, {nullptr}});
}
template<class G, std::size_t Lanes, accelerator_kernels K, class F, class T>
void max_pool2d_backward_input(with_function<K, F, T> const& k, std::uint8_t const* places, T const* dy, T* dx) {
    using kernel = blocks::max_pool2d_gradient<G, F, T, blocks::saved_places<G, T>>;
    k.each(blocks::pool2d_inputs<G>(k), kernel{{places}, dy, dx, {k.input()}});
}

/// Backward from x, without places: every window is searched again for each of its values.
template<class G, std::size_t Lanes, class Stream, class T>
void max_pool2d_backward_input(block_kernels<Stream> const& k, T const* x, T const*, T const* dy, T* dx) {
    using kernel = blocks::max_pool2d_gradient<G, identity_function, T, blocks::searched_places<G, T>>;
    k.each(blocks::pool2d_inputs<G>(k), kernel{{x}, dy, dx, {nullptr}});
}
template<class G, std::size_t Lanes, accelerator_kernels K, class F, class T>
void max_pool2d_backward_input(with_function<K, F, T> const& k, T const* x, T const*, T const* dy, T* dx) {
    using kernel = blocks::max_pool2d_gradient<G, F, T, blocks::searched_places<G, T>>;
    k.each(blocks::pool2d_inputs<G>(k), kernel{{x}, dy, dx, {k.input()}});
}

/// y = the mean of each channel. x: C x positions per sample (or channels last), y: C.
template<class G, std::size_t Lanes, class Stream, class T>
void global_avg_pool2d_forward(block_kernels<Stream> const& k, T const* x, T* y) {
    blocks::channel_mean<G, T> const program{x, y, G::channels * k.samples()};
    if (k.samples() != 0) k.queue().launch(program, program.blocks());
}

/// dx = dy / positions, at every position.
template<class G, std::size_t Lanes, class Stream, class T>
void global_avg_pool2d_backward_input(block_kernels<Stream> const& k, T const* dy, T* dx) {
    k.each(G::channels * G::positions * k.samples(), blocks::channel_mean_gradient<G, T>{dy, dx});
}

} // namespace trireme
