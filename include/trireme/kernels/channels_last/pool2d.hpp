// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/device/host/stored_numbers.hpp>
#include <trireme/kernels/channels_last/policy.hpp>
#include <trireme/kernels/geometry.hpp>

#include <algorithm>
#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

/// f(output, input) for every window of all samples: where the channels of its output begin in N x OH x OW x C, and
/// those of its first input in N x H x W x C.
template<class G, class F>
[[gnu::always_inline]] inline void for_windows_of_channels(std::size_t samples, F const& f) {
    for (std::size_t n = 0; n < samples; ++n)
        for (std::size_t oy = 0; oy < G::out_height; ++oy)
            for (std::size_t ox = 0; ox < G::out_width; ++ox)
                f(((n * G::out_height + oy) * G::out_width + ox) * G::channels,
                  ((n * G::height + oy * G::stride) * G::width + ox * G::stride) * G::channels);
}

/// The distance of value `tap` of a window from its first.
template<class G>
constexpr std::size_t window_tap(std::size_t tap) noexcept {
    return (tap / G::kernel * G::width + tap % G::kernel) * G::channels;
}

/// True if windows overlap and values are narrower than their sums: these are rounded once, when they are complete.
template<class G, class A>
inline constexpr bool sums_of_windows_wait = G::stride < G::kernel && sizeof(A) < sizeof(accumulate_t<A>);

/// dx = the sums of what windows give to their values; overwrites dx. f(output, input, channel, count) gives a function
/// of a value's place in the window: what `count` channels of the value get. Sums run over the windows in their order.
template<class G, class A, class F>
    requires(!sums_of_windows_wait<G, A>)
[[gnu::always_inline]] inline void sums_by_windows(std::size_t samples, A* dx, F const& f) {
    using vector = reckoned_vector<A>;
    std::fill_n(dx, samples * G::channels * G::height * G::width, A{});
    for_windows_of_channels<G>(samples, [&](std::size_t output, std::size_t input) {
        for_registers<vector>(G::channels, [&](std::size_t c, auto count) {
            auto const share = f(output, input, c, count);
            for (std::size_t tap = 0; tap < G::kernel * G::kernel; ++tap) {
                A* const to = dx + input + window_tap<G>(tap) + c;
                write_numbers(read_numbers<vector>(to, count) + share(tap), to, count);
            }
        });
    });
}

/// The part of a side, in values or in the windows that see some of them.
struct side_part {
    std::size_t first, end;
};
/// The windows that see values of this part of a side with so many windows.
template<class G>
constexpr side_part windows_at(side_part values, std::size_t windows) noexcept {
    return {values.first < G::kernel ? 0 : (values.first - G::kernel) / G::stride + 1,
            std::min(windows, (values.end - 1) / G::stride + 1)};
}

/// Function sums_by_windows, likewise, keeps the sums of a tile of values on the stack: of one register of channels.
/// Cost: windows at the edge of a tile are seen in each tile that they reach into.
template<class G, class A, class F>
    requires(sums_of_windows_wait<G, A>)
[[gnu::always_inline]] inline void sums_by_windows(std::size_t samples, A* dx, F const& f) {
    using vector = reckoned_vector<A>;
    constexpr std::size_t height = even_block(G::height, 16), width = even_block(G::width, 32);
    auto const of_tile = [&](std::size_t n, side_part rows, side_part columns) {
        auto const by_row = windows_at<G>(rows, G::out_height), by_column = windows_at<G>(columns, G::out_width);
        for_registers<vector>(G::channels, [&](std::size_t c, auto count) {
            vector sums[height][width];
            std::fill_n(sums[0], height * width, vector::all(0));
            for (auto oy = by_row.first; oy < by_row.end; ++oy)
                for (auto ox = by_column.first; ox < by_column.end; ++ox) {
                    auto const y = oy * G::stride, x = ox * G::stride;
                    auto const share = f(((n * G::out_height + oy) * G::out_width + ox) * G::channels,
                                         ((n * G::height + y) * G::width + x) * G::channels, c, count);
                    for (auto iy = std::max(y, rows.first); iy < std::min(y + G::kernel, rows.end); ++iy)
                        for (auto ix = std::max(x, columns.first); ix < std::min(x + G::kernel, columns.end); ++ix) {
                            auto& sum = sums[iy - rows.first][ix - columns.first];
                            sum = sum + share((iy - y) * G::kernel + ix - x);
                        }
                }
            for (auto iy = rows.first; iy < rows.end; ++iy)
                for (auto ix = columns.first; ix < columns.end; ++ix)
                    write_numbers(sums[iy - rows.first][ix - columns.first],
                                  dx + ((n * G::height + iy) * G::width + ix) * G::channels + c, count);
        });
    };
    for (std::size_t n = 0; n < samples; ++n)
        for (std::size_t iy = 0; iy < G::height; iy += height)
            for (std::size_t ix = 0; ix < G::width; ix += width)
                of_tile(n, {iy, std::min(iy + height, G::height)}, {ix, std::min(ix + width, G::width)});
}

/// Shares of the values of a window in the gradient of its mean: equal ones.
template<class G, class A>
struct shares_of_means {
    using vector = reckoned_vector<A>;
    A const* dy;

    template<class Count>
    [[gnu::always_inline]] auto operator()(std::size_t output, std::size_t, std::size_t c, Count count) const {
        auto const share =
            read_numbers<vector>(dy + output + c, count) / vector::all(accumulate_t<A>(G::kernel * G::kernel));
        return [share](std::size_t) { return share; };
    }
};

/// Shares in the gradient of its maximum: the place of the maximum gets all.
template<class G, class A>
struct shares_of_maxima {
    using T = accumulate_t<A>;
    using vector = reckoned_vector<A>;
    static constexpr std::size_t taps = G::kernel * G::kernel;
    static_assert(taps < std::size_t{1} << 24); // a place in the window is counted in T
    A const* x;
    A const* dy;

    template<class Count>
    [[gnu::always_inline]] auto operator()(std::size_t output, std::size_t input, std::size_t c, Count count) const {
        auto largest = read_numbers<vector>(x + input + c, count), place = vector::all(0);
        for (std::size_t tap = 1; tap < taps; ++tap) {
            auto const here = read_numbers<vector>(x + input + window_tap<G>(tap) + c, count);
            auto const larger = (here > largest) | (here != here);
            largest = vector::select(larger, here, largest);
            place = vector::select(larger, vector::all(T(tap)), place);
        }
        auto const gradient = read_numbers<vector>(dy + output + c, count);
        return [place, gradient](std::size_t tap) {
            return vector::select(place == vector::all(T(tap)), gradient, vector::all(0));
        };
    }
};

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

// Pooling channels last, a register of channels at a time; what it computes is told beside portable's kernels.

template<class G, std::size_t, channels_last_kernels K, class A>
TRIREME_NOINLINE void avg_pool2d_forward(K const& k, A const* x, A* y) {
    if (!k.computing()) return;
    using T = accumulate_t<A>;
    using vector = reckoned_vector<A>;
    constexpr std::size_t taps = G::kernel * G::kernel;
    detail::for_windows_of_channels<G>(k.samples(), [&](std::size_t output, std::size_t input) {
        for_registers<vector>(G::channels, [&](std::size_t c, auto count) {
            auto sum = read_numbers<vector>(x + input + c, count);
            for (std::size_t tap = 1; tap < taps; ++tap)
                sum = sum + read_numbers<vector>(x + input + detail::window_tap<G>(tap) + c, count);
            write_numbers(sum / vector::all(T(taps)), y + output + c, count);
        });
    });
}

template<class G, std::size_t, channels_last_kernels K, class A>
TRIREME_NOINLINE void avg_pool2d_backward_input(K const& k, A const* dy, A* dx) {
    if (k.computing()) detail::sums_by_windows<G>(k.samples(), dx, detail::shares_of_means<G, A>{dy});
}

template<class G, std::size_t, channels_last_kernels K, class A>
TRIREME_NOINLINE void max_pool2d_forward(K const& k, A const* x, A* y) {
    if (!k.computing()) return;
    using vector = reckoned_vector<A>;
    detail::for_windows_of_channels<G>(k.samples(), [&](std::size_t output, std::size_t input) {
        for_registers<vector>(G::channels, [&](std::size_t c, auto count) {
            auto largest = read_numbers<vector>(x + input + c, count);
            for (std::size_t tap = 1; tap < G::kernel * G::kernel; ++tap) {
                auto const here = read_numbers<vector>(x + input + detail::window_tap<G>(tap) + c, count);
                largest = vector::select((here > largest) | (here != here), here, largest);
            }
            write_numbers(largest, y + output + c, count);
        });
    });
}

template<class G, std::size_t, channels_last_kernels K, class A>
TRIREME_NOINLINE void max_pool2d_backward_input(K const& k, A const* x, A const*, A const* dy, A* dx) {
    if (k.computing()) detail::sums_by_windows<G>(k.samples(), dx, detail::shares_of_maxima<G, A>{x, dy});
}

/// y = the mean of each channel. x: N x positions x C, y: N x C.
template<class G, std::size_t, channels_last_kernels K, class A>
TRIREME_NOINLINE void global_avg_pool2d_forward(K const& k, A const* x, A* y) {
    if (!k.computing()) return;
    using T = accumulate_t<A>;
    using vector = reckoned_vector<A>;
    for (std::size_t n = 0; n < k.samples(); ++n)
        for_registers<vector>(G::channels, [&](std::size_t c, auto count) {
            A const* const from = x + n * G::positions * G::channels + c;
            auto sum = vector::all(0);
            for (std::size_t i = 0; i < G::positions; ++i)
                sum = sum + read_numbers<vector>(from + i * G::channels, count);
            write_numbers(sum / vector::all(T(G::positions)), y + n * G::channels + c, count);
        });
}

/// dx = dy / positions, at every position.
template<class G, std::size_t, channels_last_kernels K, class A>
TRIREME_NOINLINE void global_avg_pool2d_backward_input(K const& k, A const* dy, A* dx) {
    if (!k.computing()) return;
    using T = accumulate_t<A>;
    using vector = reckoned_vector<A>;
    for (std::size_t n = 0; n < k.samples(); ++n)
        for_registers<vector>(G::channels, [&](std::size_t c, auto count) {
            auto const share = read_numbers<vector>(dy + n * G::channels + c, count) / vector::all(T(G::positions));
            A* const to = dx + n * G::positions * G::channels + c;
            for (std::size_t i = 0; i < G::positions; ++i) write_numbers(share, to + i * G::channels, count);
        });
}

} // namespace trireme::inline TRIREME_ISA
