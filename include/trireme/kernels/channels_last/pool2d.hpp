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
    if (!k.computing()) return;
    using T = accumulate_t<A>;
    using vector = reckoned_vector<A>;
    constexpr std::size_t taps = G::kernel * G::kernel;
    std::fill_n(dx, k.samples() * G::channels * G::height * G::width, A{});
    detail::for_windows_of_channels<G>(k.samples(), [&](std::size_t output, std::size_t input) {
        for_registers<vector>(G::channels, [&](std::size_t c, auto count) {
            auto const share = read_numbers<vector>(dy + output + c, count) / vector::all(T(taps));
            for (std::size_t tap = 0; tap < taps; ++tap) {
                A* const to = dx + input + detail::window_tap<G>(tap) + c;
                write_numbers(read_numbers<vector>(to, count) + share, to, count);
            }
        });
    });
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
    if (!k.computing()) return;
    using T = accumulate_t<A>;
    using vector = reckoned_vector<A>;
    constexpr std::size_t taps = G::kernel * G::kernel;
    static_assert(taps < std::size_t{1} << 24); // a place in the window is counted in T
    std::fill_n(dx, k.samples() * G::channels * G::height * G::width, A{});
    detail::for_windows_of_channels<G>(k.samples(), [&](std::size_t output, std::size_t input) {
        for_registers<vector>(G::channels, [&](std::size_t c, auto count) {
            auto largest = read_numbers<vector>(x + input + c, count), place = vector::all(0);
            for (std::size_t tap = 1; tap < taps; ++tap) {
                auto const here = read_numbers<vector>(x + input + detail::window_tap<G>(tap) + c, count);
                auto const larger = (here > largest) | (here != here);
                largest = vector::select(larger, here, largest);
                place = vector::select(larger, vector::all(T(tap)), place);
            }
            auto const gradient = read_numbers<vector>(dy + output + c, count), none = vector::all(0);
            for (std::size_t tap = 0; tap < taps; ++tap) {
                A* const to = dx + input + detail::window_tap<G>(tap) + c;
                auto const share = vector::select(place == vector::all(T(tap)), gradient, none);
                write_numbers(read_numbers<vector>(to, count) + share, to, count);
            }
        });
    });
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
