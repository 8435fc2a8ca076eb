// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/reference/policy.hpp>

#include <cmath>
#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

/// Calls f(output, begin) for every window: the places of its output in C x OH x OW and of its first input in C x H x
/// W.
template<class G, class F>
void for_windows(F const& f) noexcept {
    for (std::size_t c = 0; c < G::channels; ++c)
        for (std::size_t oy = 0; oy < G::out_height; ++oy)
            for (std::size_t ox = 0; ox < G::out_width; ++ox)
                f((c * G::out_height + oy) * G::out_width + ox,
                  (c * G::height + oy * G::stride) * G::width + ox * G::stride);
}

/// The place of the window's maximum: the first one, or the last NaN, as PyTorch has it.
template<class G, std::size_t Lanes, class T>
std::size_t max_place(T const* x, std::size_t begin, std::size_t lane) noexcept {
    std::size_t place = begin;
    for (std::size_t ky = 0; ky < G::kernel; ++ky)
        for (std::size_t kx = 0; kx < G::kernel; ++kx) {
            std::size_t const here = begin + ky * G::width + kx;
            T const value = x[here * Lanes + lane];
            if (value > x[place * Lanes + lane] || std::isnan(value)) place = here;
        }
    return place;
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = the mean of each window. Rows and columns beyond the last full window do not count.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void avg_pool2d_forward(reference, T const* x, T* y) noexcept {
    for (std::size_t lane = 0; lane < Lanes; ++lane)
        detail::for_windows<G>([&](std::size_t output, std::size_t begin) {
            T sum = 0;
            for (std::size_t ky = 0; ky < G::kernel; ++ky)
                for (std::size_t kx = 0; kx < G::kernel; ++kx) sum += x[(begin + ky * G::width + kx) * Lanes + lane];
            y[output * Lanes + lane] = sum / T(G::kernel * G::kernel);
        });
}

/// dx = the gradient with respect to x; overwrites dx, with 0 where no window looks.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void avg_pool2d_backward_input(reference, T const* dy, T* dx) noexcept {
    for (std::size_t i = 0; i < G::channels * G::height * G::width * Lanes; ++i) dx[i] = 0;
    for (std::size_t lane = 0; lane < Lanes; ++lane)
        detail::for_windows<G>([&](std::size_t output, std::size_t begin) {
            for (std::size_t ky = 0; ky < G::kernel; ++ky)
                for (std::size_t kx = 0; kx < G::kernel; ++kx)
                    dx[(begin + ky * G::width + kx) * Lanes + lane] +=
                        dy[output * Lanes + lane] / T(G::kernel * G::kernel);
        });
}

/// y = the maximum of each window; a NaN in the window is the maximum.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void max_pool2d_forward(reference, T const* x, T* y) noexcept {
    for (std::size_t lane = 0; lane < Lanes; ++lane)
        detail::for_windows<G>([&](std::size_t output, std::size_t begin) {
            y[output * Lanes + lane] = x[detail::max_place<G, Lanes>(x, begin, lane) * Lanes + lane];
        });
}

/// dx = the gradient with respect to x; overwrites dx. Among equal maxima the first in row-major order gets it all.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void max_pool2d_backward_input(reference, T const* x, T const*, T const* dy, T* dx) noexcept {
    for (std::size_t i = 0; i < G::channels * G::height * G::width * Lanes; ++i) dx[i] = 0;
    for (std::size_t lane = 0; lane < Lanes; ++lane)
        detail::for_windows<G>([&](std::size_t output, std::size_t begin) {
            dx[detail::max_place<G, Lanes>(x, begin, lane) * Lanes + lane] += dy[output * Lanes + lane];
        });
}

/// y = the mean of each channel. x: C x positions x Lanes, y: C x Lanes.
template<class G, std::size_t Lanes, class T>
void global_avg_pool2d_forward(reference, T const* x, T* y) noexcept {
    for (std::size_t c = 0; c < G::channels; ++c)
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            T sum = 0;
            for (std::size_t i = 0; i < G::positions; ++i) sum += x[(c * G::positions + i) * Lanes + lane];
            y[c * Lanes + lane] = sum / T(G::positions);
        }
}

/// dx = dy / positions, at every position.
template<class G, std::size_t Lanes, class T>
void global_avg_pool2d_backward_input(reference, T const* dy, T* dx) noexcept {
    for (std::size_t c = 0; c < G::channels; ++c)
        for (std::size_t i = 0; i < G::positions; ++i)
            for (std::size_t lane = 0; lane < Lanes; ++lane)
                dx[(c * G::positions + i) * Lanes + lane] = dy[c * Lanes + lane] / T(G::positions);
}

} // namespace trireme::inline TRIREME_ISA
