// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <cstddef>
#include <cstring>

namespace trireme::detail::inline TRIREME_ISA {

/// Calls f(output, input) for every window and register of lanes: where its output and its first input begin.
template<class G, std::size_t Lanes, std::size_t Width, class F>
[[gnu::always_inline]] inline void for_lane_windows(F const& f) noexcept {
    for (std::size_t c = 0; c < G::channels; ++c)
        for (std::size_t oy = 0; oy < G::out_height; ++oy)
            for (std::size_t ox = 0; ox < G::out_width; ++ox)
                for (std::size_t lane = 0; lane < Lanes; lane += Width)
                    f(((c * G::out_height + oy) * G::out_width + ox) * Lanes + lane,
                      ((c * G::height + oy * G::stride) * G::width + ox * G::stride) * Lanes + lane);
}

/// Calls f(block_length<N>) with the lanes of a narrow granule.
template<std::size_t Lanes, class F>
void with_narrow_lanes(portable policy, F const& f) {
    if (policy.narrow == Lanes / 2)
        f(block_length<Lanes / 2>{});
    else
        f(block_length<Lanes / 4>{});
}
template<std::size_t Lanes, class T>
inline constexpr bool may_be_narrow = Lanes >= 8 && Lanes == full_register<T>;

/// True if an input may lie in several windows; true if every input lies in exactly one. The gradients of the first are
/// added up; those of the second need no zeros beforehand.
template<class G>
inline constexpr bool windows_overlap = G::stride < G::kernel;
template<class G>
inline constexpr bool windows_tile = G::stride == G::kernel && G::height % G::kernel == 0 && G::width % G::kernel == 0;

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = the mean of each window. Rows and columns beyond the last full window do not count.
/// x: C x H x W, y: C x OH x OW, both times Lanes.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void avg_pool2d_forward([[maybe_unused]] portable policy, T const* x, T* y) noexcept {
    if constexpr (detail::may_be_narrow<Lanes, T>)
        if (policy.narrow != 0)
            return detail::with_narrow_lanes<Lanes>(
                policy, [=]<std::size_t N>(block_length<N>) { avg_pool2d_forward<G, N>(portable{}, x, y); });
    constexpr std::size_t width = register_lanes<T, Lanes>;
    using vector = lane_vector<T, width>;
    detail::for_lane_windows<G, Lanes, width>([&](std::size_t output, std::size_t input) {
        auto sum = vector::all(0);
        for (std::size_t ky = 0; ky < G::kernel; ++ky)
            for (std::size_t kx = 0; kx < G::kernel; ++kx)
                sum = sum + vector::load(x + input + (ky * G::width + kx) * Lanes);
        (sum / vector::all(T(G::kernel * G::kernel))).store(y + output);
    });
}

/// dx = the gradient with respect to x; overwrites dx, with 0 where no window looks.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void avg_pool2d_backward_input([[maybe_unused]] portable policy, T const* dy, T* dx) noexcept {
    if constexpr (detail::may_be_narrow<Lanes, T>)
        if (policy.narrow != 0)
            return detail::with_narrow_lanes<Lanes>(
                policy, [=]<std::size_t N>(block_length<N>) { avg_pool2d_backward_input<G, N>(portable{}, dy, dx); });
    constexpr std::size_t width = register_lanes<T, Lanes>;
    using vector = lane_vector<T, width>;
    if constexpr (!detail::windows_tile<G>) std::memset(dx, 0, G::channels * G::height * G::width * Lanes * sizeof(T));
    detail::for_lane_windows<G, Lanes, width>([&](std::size_t output, std::size_t input) {
        auto const share = vector::load(dy + output) / vector::all(T(G::kernel * G::kernel));
        for (std::size_t ky = 0; ky < G::kernel; ++ky)
            for (std::size_t kx = 0; kx < G::kernel; ++kx) {
                T* const to = dx + input + (ky * G::width + kx) * Lanes;
                (detail::windows_overlap<G> ? vector::load(to) + share : share).store(to);
            }
    });
}

/// y = the maximum of each window; a NaN in the window is the maximum.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void max_pool2d_forward([[maybe_unused]] portable policy, T const* x, T* y) noexcept {
    if constexpr (detail::may_be_narrow<Lanes, T>)
        if (policy.narrow != 0)
            return detail::with_narrow_lanes<Lanes>(
                policy, [=]<std::size_t N>(block_length<N>) { max_pool2d_forward<G, N>(portable{}, x, y); });
    constexpr std::size_t width = register_lanes<T, Lanes>;
    using vector = lane_vector<T, width>;
    detail::for_lane_windows<G, Lanes, width>([&](std::size_t output, std::size_t input) {
        auto largest = vector::load(x + input);
        for (std::size_t ky = 0; ky < G::kernel; ++ky)
            for (std::size_t kx = 0; kx < G::kernel; ++kx) {
                auto const here = vector::load(x + input + (ky * G::width + kx) * Lanes);
                largest = vector::select((here > largest) | (here != here), here, largest);
            }
        largest.store(y + output);
    });
}

/// dx = the gradient with respect to x; overwrites dx. Among equal maxima the first in row-major order gets it all.
/// Cost: two walks over each window, the first to find the place of the maximum again.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void max_pool2d_backward_input([[maybe_unused]] portable policy, T const* x, T const*, T const* dy,
                                                T* dx) noexcept {
    if constexpr (detail::may_be_narrow<Lanes, T>)
        if (policy.narrow != 0)
            return detail::with_narrow_lanes<Lanes>(policy, [=]<std::size_t N>(block_length<N>) {
                max_pool2d_backward_input<G, N>(portable{}, x, x, dy, dx);
            });
    constexpr std::size_t width = register_lanes<T, Lanes>;
    using vector = lane_vector<T, width>;
    static_assert(G::kernel * G::kernel < std::size_t{1} << 24); // a place in the window is counted in T
    if constexpr (!detail::windows_tile<G>) std::memset(dx, 0, G::channels * G::height * G::width * Lanes * sizeof(T));
    detail::for_lane_windows<G, Lanes, width>([&](std::size_t output, std::size_t input) {
        auto largest = vector::load(x + input), place = vector::all(0);
        for (std::size_t ky = 0; ky < G::kernel; ++ky)
            for (std::size_t kx = 0; kx < G::kernel; ++kx) {
                auto const here = vector::load(x + input + (ky * G::width + kx) * Lanes);
                auto const larger = (here > largest) | (here != here);
                largest = vector::select(larger, here, largest);
                place = vector::select(larger, vector::all(T(ky * G::kernel + kx)), place);
            }
        auto const gradient = vector::load(dy + output), none = vector::all(0);
        for (std::size_t ky = 0; ky < G::kernel; ++ky)
            for (std::size_t kx = 0; kx < G::kernel; ++kx) {
                T* const to = dx + input + (ky * G::width + kx) * Lanes;
                auto const share = vector::select(place == vector::all(T(ky * G::kernel + kx)), gradient, none);
                (detail::windows_overlap<G> ? vector::load(to) + share : share).store(to);
            }
    });
}

/// y = the mean of each channel. x: C x positions x Lanes, y: C x Lanes.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void global_avg_pool2d_forward(portable, T const* x, T* y) noexcept {
    constexpr std::size_t width = register_lanes<T, Lanes>;
    using vector = lane_vector<T, width>;
    for (std::size_t c = 0; c < G::channels; ++c)
        for (std::size_t lane = 0; lane < Lanes; lane += width) {
            auto sum = vector::all(0);
            for (std::size_t i = 0; i < G::positions; ++i)
                sum = sum + vector::load(x + (c * G::positions + i) * Lanes + lane);
            (sum / vector::all(T(G::positions))).store(y + c * Lanes + lane);
        }
}

/// dx = dy / positions, at every position.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void global_avg_pool2d_backward_input(portable, T const* dy, T* dx) noexcept {
    constexpr std::size_t width = register_lanes<T, Lanes>;
    using vector = lane_vector<T, width>;
    for (std::size_t c = 0; c < G::channels; ++c)
        for (std::size_t lane = 0; lane < Lanes; lane += width) {
            auto const share = vector::load(dy + c * Lanes + lane) / vector::all(T(G::positions));
            for (std::size_t i = 0; i < G::positions; ++i) share.store(dx + (c * G::positions + i) * Lanes + lane);
        }
}

} // namespace trireme::inline TRIREME_ISA
