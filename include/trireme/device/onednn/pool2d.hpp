// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/geometry.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/device/onednn/kernels.hpp>

#include <cstddef>
#include <cstring>

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

template<class G, std::size_t, class T>
TRIREME_NOINLINE void avg_pool2d_forward(onednn const& k, T const* x, T* y) {
    if (!k.computing()) return;
    using vector = lane_vector<T, full_register<T>>;
    constexpr std::size_t taps = G::kernel * G::kernel;
    detail::for_windows_of_channels<G>(k.samples(), [&](std::size_t output, std::size_t input) {
        for_registers<vector>(G::channels, [&](std::size_t c, auto count) {
            auto sum = vector::load(x + input + c, count);
            for (std::size_t tap = 1; tap < taps; ++tap)
                sum = sum + vector::load(x + input + detail::window_tap<G>(tap) + c, count);
            (sum / vector::all(T(taps))).store(y + output + c, count);
        });
    });
}

template<class G, std::size_t, class T>
TRIREME_NOINLINE void avg_pool2d_backward_input(onednn const& k, T const* dy, T* dx) {
    if (!k.computing()) return;
    using vector = lane_vector<T, full_register<T>>;
    constexpr std::size_t taps = G::kernel * G::kernel;
    std::memset(dx, 0, k.samples() * G::channels * G::height * G::width * sizeof(T));
    detail::for_windows_of_channels<G>(k.samples(), [&](std::size_t output, std::size_t input) {
        for_registers<vector>(G::channels, [&](std::size_t c, auto count) {
            auto const share = vector::load(dy + output + c, count) / vector::all(T(taps));
            for (std::size_t tap = 0; tap < taps; ++tap) {
                T* const to = dx + input + detail::window_tap<G>(tap) + c;
                (vector::load(to, count) + share).store(to, count);
            }
        });
    });
}

template<class G, std::size_t, class T>
TRIREME_NOINLINE void max_pool2d_forward(onednn const& k, T const* x, T* y) {
    if (!k.computing()) return;
    using vector = lane_vector<T, full_register<T>>;
    detail::for_windows_of_channels<G>(k.samples(), [&](std::size_t output, std::size_t input) {
        for_registers<vector>(G::channels, [&](std::size_t c, auto count) {
            auto largest = vector::load(x + input + c, count);
            for (std::size_t tap = 1; tap < G::kernel * G::kernel; ++tap) {
                auto const here = vector::load(x + input + detail::window_tap<G>(tap) + c, count);
                largest = vector::select((here > largest) | (here != here), here, largest);
            }
            largest.store(y + output + c, count);
        });
    });
}

template<class G, std::size_t, class T>
TRIREME_NOINLINE void max_pool2d_backward_input(onednn const& k, T const* x, T const*, T const* dy, T* dx) {
    if (!k.computing()) return;
    using vector = lane_vector<T, full_register<T>>;
    constexpr std::size_t taps = G::kernel * G::kernel;
    static_assert(taps < std::size_t{1} << 24); // a place in the window is counted in T
    std::memset(dx, 0, k.samples() * G::channels * G::height * G::width * sizeof(T));
    detail::for_windows_of_channels<G>(k.samples(), [&](std::size_t output, std::size_t input) {
        for_registers<vector>(G::channels, [&](std::size_t c, auto count) {
            auto largest = vector::load(x + input + c, count), place = vector::all(0);
            for (std::size_t tap = 1; tap < taps; ++tap) {
                auto const here = vector::load(x + input + detail::window_tap<G>(tap) + c, count);
                auto const larger = (here > largest) | (here != here);
                largest = vector::select(larger, here, largest);
                place = vector::select(larger, vector::all(T(tap)), place);
            }
            auto const gradient = vector::load(dy + output + c, count), none = vector::all(0);
            for (std::size_t tap = 0; tap < taps; ++tap) {
                T* const to = dx + input + detail::window_tap<G>(tap) + c;
                auto const share = vector::select(place == vector::all(T(tap)), gradient, none);
                (vector::load(to, count) + share).store(to, count);
            }
        });
    });
}

/// y = the mean of each channel. x: N x positions x C, y: N x C.
template<class G, std::size_t, class T>
TRIREME_NOINLINE void global_avg_pool2d_forward(onednn const& k, T const* x, T* y) {
    if (!k.computing()) return;
    using vector = lane_vector<T, full_register<T>>;
    for (std::size_t n = 0; n < k.samples(); ++n)
        for_registers<vector>(G::channels, [&](std::size_t c, auto count) {
            T const* const from = x + n * G::positions * G::channels + c;
            auto sum = vector::all(0);
            for (std::size_t i = 0; i < G::positions; ++i) sum = sum + vector::load(from + i * G::channels, count);
            (sum / vector::all(T(G::positions))).store(y + n * G::channels + c, count);
        });
}

/// dx = dy / positions, at every position.
template<class G, std::size_t, class T>
TRIREME_NOINLINE void global_avg_pool2d_backward_input(onednn const& k, T const* dy, T* dx) {
    if (!k.computing()) return;
    using vector = lane_vector<T, full_register<T>>;
    for (std::size_t n = 0; n < k.samples(); ++n)
        for_registers<vector>(G::channels, [&](std::size_t c, auto count) {
            auto const share = vector::load(dy + n * G::channels + c, count) / vector::all(T(G::positions));
            T* const to = dx + n * G::positions * G::channels + c;
            for (std::size_t i = 0; i < G::positions; ++i) share.store(to + i * G::channels, count);
        });
}

} // namespace trireme::inline TRIREME_ISA
