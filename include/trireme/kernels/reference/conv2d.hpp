// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/reference/policy.hpp>

#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

/// Calls f(o, oy, ox, c, ky, kx, iy, ix) for every tap of every output that lies inside the image.
template<class G, class F>
void for_taps(F const& f) noexcept {
    for (std::size_t o = 0; o < G::out_channels; ++o)
        for (std::size_t oy = 0; oy < G::out_height; ++oy)
            for (std::size_t ox = 0; ox < G::out_width; ++ox)
                for (std::size_t c = 0; c < G::channels; ++c)
                    for (std::size_t ky = 0; ky < G::kernel; ++ky)
                        for (std::size_t kx = 0; kx < G::kernel; ++kx) {
                            std::size_t const iy = oy * G::stride + ky - G::padding; // above the image it wraps, and is
                            std::size_t const ix = ox * G::stride + kx - G::padding; // larger than any height
                            if (iy < G::height && ix < G::width) f(o, oy, ox, c, ky, kx, iy, ix);
                        }
}

// Places in the arrays x[C][H][W], w[O][C][K][K] and y[O][OH][OW].
template<class G>
constexpr std::size_t conv2d_x(std::size_t c, std::size_t iy, std::size_t ix) noexcept {
    return (c * G::height + iy) * G::width + ix;
}
template<class G>
constexpr std::size_t conv2d_w(std::size_t o, std::size_t c, std::size_t ky, std::size_t kx) noexcept {
    return ((o * G::channels + c) * G::kernel + ky) * G::kernel + kx;
}
template<class G>
constexpr std::size_t conv2d_y(std::size_t o, std::size_t oy, std::size_t ox) noexcept {
    return (o * G::out_height + oy) * G::out_width + ox;
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = conv(x, w) + b with zero padding: the cross-correlation that PyTorch calls a convolution.
/// x: C x H x W, w: O x C x K x K, b: O, y: O x OH x OW; x and y times Lanes.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void conv2d_forward(reference, T const* x, T const* w, T const* b, T* y) noexcept {
    constexpr std::size_t pixels = G::out_height * G::out_width;
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        for (std::size_t i = 0; i < G::out_channels * pixels; ++i) y[i * Lanes + lane] = b[i / pixels];
        detail::for_taps<G>([&](auto o, auto oy, auto ox, auto c, auto ky, auto kx, auto iy, auto ix) {
            y[detail::conv2d_y<G>(o, oy, ox) * Lanes + lane] +=
                w[detail::conv2d_w<G>(o, c, ky, kx)] * x[detail::conv2d_x<G>(c, iy, ix) * Lanes + lane];
        });
    }
}

/// dx = the gradient with respect to x; overwrites dx.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void conv2d_backward_input(reference, T const* w, T const* dy, T* dx) noexcept {
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        for (std::size_t i = 0; i < G::channels * G::height * G::width; ++i) dx[i * Lanes + lane] = 0;
        detail::for_taps<G>([&](auto o, auto oy, auto ox, auto c, auto ky, auto kx, auto iy, auto ix) {
            dx[detail::conv2d_x<G>(c, iy, ix) * Lanes + lane] +=
                w[detail::conv2d_w<G>(o, c, ky, kx)] * dy[detail::conv2d_y<G>(o, oy, ox) * Lanes + lane];
        });
    }
}

/// Adds the gradients with respect to w and b, summed over the lanes, to dw and db.
template<class G, std::size_t Lanes, class T>
TRIREME_NOINLINE void conv2d_backward_weights(reference, T const* x, T const* dy, T* dw, T* db) noexcept {
    constexpr std::size_t pixels = G::out_height * G::out_width;
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        for (std::size_t i = 0; i < G::out_channels * pixels; ++i) db[i / pixels] += dy[i * Lanes + lane];
        detail::for_taps<G>([&](auto o, auto oy, auto ox, auto c, auto ky, auto kx, auto iy, auto ix) {
            dw[detail::conv2d_w<G>(o, c, ky, kx)] +=
                dy[detail::conv2d_y<G>(o, oy, ox) * Lanes + lane] * x[detail::conv2d_x<G>(c, iy, ix) * Lanes + lane];
        });
    }
}

} // namespace trireme::inline TRIREME_ISA
