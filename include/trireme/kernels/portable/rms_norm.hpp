// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/few_tokens/rms_norm.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/portable/tokens/reduction.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

#if defined(__NVCC__) // hands the unroll pragmas to the host compiler, which knows them, but warns
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1675
#endif

namespace trireme::detail::inline TRIREME_ISA {

/// 1 / sqrt(mean of squares + epsilon) of a token.
template<std::size_t Width, class T>
[[gnu::always_inline]] inline T token_scale(T const* x, double epsilon) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    T const squares = sum_of_token<Width, T>([&](std::size_t i, auto count, vector sum) {
        auto const value = vector::load(x + i, count);
        return multiply_add(value, value, sum);
    });
    return T(1) / std::sqrt(squares / static_cast<T>(Width) + static_cast<T>(epsilon));
}

/// 1 / sqrt(mean of squares + epsilon) of `count` tokens, and other sums over their values, which f adds up with x:
/// f(token, place, n, x, sums).
template<std::size_t Width, class T, std::size_t More = 0>
struct token_scales {
    using vector = lane_vector<T, norm_tokens<T>>;
    vector scale;
    token_sums<T, More + 1> sums; // the others, behind the squares

    template<class... F>
    [[gnu::always_inline]] token_scales(T const* x, std::size_t count, double epsilon, F const&... f) noexcept
        : sums(sums_of_tokens<More + 1, Width, T>(count,
                                                  [x, &f...](std::size_t t, std::size_t i, auto some, vector* to) {
                                                      auto const value = vector::load(x + t * Width + i, some);
                                                      to[0] = multiply_add(value, value, to[0]);
                                                      (f(t, i, some, value, to + 1), ...);
                                                  })) {
        scale = vector::all(1) / square_root(sums[0] / vector::all(Width) + vector::all(static_cast<T>(epsilon)));
    }
};

/// Numbers times the weights from w on, if there are any.
template<class G, class Vector, class T>
[[gnu::always_inline]] inline Vector weighted(Vector values, [[maybe_unused]] T const* w,
                                              [[maybe_unused]] std::size_t i, [[maybe_unused]] auto count) noexcept {
    if constexpr (G::weighted)
        return values * Vector::load(w + i, count);
    else
        return values;
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// y = w x / sqrt(mean of squares + epsilon), with each token's own mean. x, y: Tokens x Width, w: Width.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void rms_norm_forward(portable, T const* x, T const* w, double epsilon, T* y) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for (std::size_t t = 0; t < G::tokens; ++t, x += G::width, y += G::width) {
        auto const scale = vector::all(detail::token_scale<G::width>(x, epsilon));
        for_registers<vector>(G::width, [=](std::size_t i, auto count) {
            detail::weighted<G>(vector::load(x + i, count) * scale, w, i, count).store(y + i, count);
        });
    }
}

/// dx = scale (g - normalised x times mean of g times it), where g = w dy; overwrites dx, which may be dy.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void rms_norm_backward_input(portable, T const* x, T const* dy, T const* w, double epsilon,
                                              T* dx) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for (std::size_t first = 0; first < G::tokens; first += detail::norm_tokens<T>) {
        auto const count = std::min(detail::norm_tokens<T>, G::tokens - first);
        detail::token_scales<G::width, T, 1> const of(
            x, count, epsilon, [=](std::size_t t, std::size_t i, auto some, vector value, vector* sums) {
                auto const slope = detail::weighted<G>(vector::load(dy + t * G::width + i, some), w, i, some);
                sums[0] = multiply_add(slope, value, sums[0]);
            });
        T scales[detail::norm_tokens<T>], by_x[detail::norm_tokens<T>];
        of.scale.store(scales);
        (of.sums[1] / vector::all(G::width) * of.scale * of.scale * of.scale).store(by_x);
        for (std::size_t t = 0; t < count; ++t, x += G::width, dy += G::width, dx += G::width) {
            auto const scale = vector::all(scales[t]), by = vector::all(-by_x[t]);
            for_registers<vector>(G::width, [=](std::size_t i, auto some) {
                auto const slope = detail::weighted<G>(vector::load(dy + i, some), w, i, some);
                multiply_add(slope, scale, vector::load(x + i, some) * by).store(dx + i, some);
            });
        }
    }
}

/// dw += dy times the normalised x, summed over the tokens in their order.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void rms_norm_backward_weights(portable, T const* x, T const* dy, double epsilon, T* dw) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for (std::size_t first = 0; first < G::tokens; first += detail::norm_tokens<T>) {
        auto const count = std::min(detail::norm_tokens<T>, G::tokens - first);
        T scales[detail::norm_tokens<T>];
        detail::token_scales<G::width, T>(x, count, epsilon).scale.store(scales);
        detail::for_registers_of_token<G::width, vector>(
            [=, &scales]<std::size_t N>(block_length<N>, std::size_t i, auto some) {
                vector sums[N];
#pragma GCC unroll 4
                for (std::size_t k = 0; k < N; ++k) sums[k] = vector::load(dw + i + k * vector::size, some);
                for (std::size_t t = 0; t < count; ++t) {
                    auto const scale = vector::all(scales[t]);
#pragma GCC unroll 4
                    for (std::size_t k = 0; k < N; ++k) {
                        auto const at = t * G::width + i + k * vector::size;
                        sums[k] = add_product(vector::load(dy + at, some), vector::load(x + at, some) * scale, sums[k]);
                    }
                }
#pragma GCC unroll 4
                for (std::size_t k = 0; k < N; ++k) sums[k].store(dw + i + k * vector::size, some);
            });
        x += count * G::width;
        dy += count * G::width;
    }
}

} // namespace trireme::inline TRIREME_ISA

#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif
