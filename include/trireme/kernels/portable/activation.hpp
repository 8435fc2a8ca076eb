// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/exp.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <cstddef>
#include <initializer_list>
#include <type_traits>

namespace trireme::inline TRIREME_ISA {

/// A function as the portable kernels apply it to a register: number by number, unless specialised. A specialisation
/// may differ from the function by a few ulp, and says by how many.
template<class F>
struct register_function {
    template<class T, std::size_t N>
    [[gnu::always_inline]] static lane_vector<T, N> value(lane_vector<T, N> x) noexcept {
        T values[N];
        x.store(values);
        for (std::size_t i = 0; i < N; ++i) values[i] = F::value(values[i]);
        return lane_vector<T, N>::load(values);
    }
    template<class T, std::size_t N>
    [[gnu::always_inline]] static lane_vector<T, N> slope(lane_vector<T, N> x, lane_vector<T, N> y) noexcept {
        T inputs[N], outputs[N];
        x.store(inputs);
        y.store(outputs);
        for (std::size_t i = 0; i < N; ++i) outputs[i] = F::slope(inputs[i], outputs[i]);
        return lane_vector<T, N>::load(outputs);
    }
};

/// At most 3 ulp from the true value, small results included.
template<>
struct register_function<sigmoid_function> {
    template<class T, std::size_t N>
    [[gnu::always_inline]] static lane_vector<T, N> value(lane_vector<T, N> x) noexcept {
        using vector = lane_vector<T, N>;
        auto const one = vector::all(1);
        auto const negative = x < vector::all(0);
        auto const e = exponential_of_negative(vector::select(negative, x, -x));
        return vector::select(negative, e, one) / (one + e);
    }
    template<class T, std::size_t N>
    [[gnu::always_inline]] static lane_vector<T, N> slope(lane_vector<T, N>, lane_vector<T, N> y) noexcept {
        return y * (lane_vector<T, N>::all(1) - y);
    }
};

/// At most 2 ulp from the true value, near 0 too.
/// Source: S. L. Moshier, Cephes Mathematical Library (tanhf, tanh): a polynomial or rational below 0.625, else exp.
template<>
struct register_function<hyperbolic_tangent_function> {
    template<class T, std::size_t N>
    [[gnu::always_inline]] static lane_vector<T, N> value(lane_vector<T, N> x) noexcept {
        using vector = lane_vector<T, N>;
        auto const one = vector::all(1), two = vector::all(2);
        auto const negative = x < vector::all(0);
        auto const size = vector::select(negative, -x, x);
        auto const far = one - two / (one + exponential(size + size));

        auto const z = x * x;
        auto near = vector::all(0);
        if constexpr (std::is_same_v<T, float>) {
            near = vector::all(-5.70498872745e-3f);
            for (float term : {2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f, -3.33332819422e-1f})
                near = multiply_add(near, z, vector::all(term));
        } else {
            auto above = vector::all(-9.64399179425052238628e-1), below = z + vector::all(1.12811678491632931402e2);
            above = multiply_add(above, z, vector::all(-9.92877231001918586564e1));
            above = multiply_add(above, z, vector::all(-1.61468768441708447952e3));
            below = multiply_add(below, z, vector::all(2.23548839060100448583e3));
            below = multiply_add(below, z, vector::all(4.84406305325125486048e3));
            near = above / below;
        }
        near = multiply_add(near * z, x, x);
        return vector::select(size < vector::all(T(0.625)), near, vector::select(negative, -far, far));
    }
    template<class T, std::size_t N>
    [[gnu::always_inline]] static lane_vector<T, N> slope(lane_vector<T, N>, lane_vector<T, N> y) noexcept {
        return lane_vector<T, N>::all(1) - y * y;
    }
};

template<>
struct register_function<relu_function> {
    template<class T, std::size_t N>
    [[gnu::always_inline]] static lane_vector<T, N> value(lane_vector<T, N> x) noexcept {
        auto const zero = lane_vector<T, N>::all(0);
        return lane_vector<T, N>::select(x <= zero, zero, x);
    }
    template<class T, std::size_t N>
    [[gnu::always_inline]] static lane_vector<T, N> slope(lane_vector<T, N>, lane_vector<T, N> y) noexcept {
        auto const zero = lane_vector<T, N>::all(0);
        return lane_vector<T, N>::select(y <= zero, zero, lane_vector<T, N>::all(1));
    }
};

/// By the logistic function: (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), which keeps the bits that the sum loses where the
/// tangent is near -1.
template<>
struct register_function<gelu_tanh_function> {
    template<class T, std::size_t N>
    [[gnu::always_inline]] static lane_vector<T, N> value(lane_vector<T, N> x) noexcept {
        return x / divisor(x, x * x);
    }
    template<class T, std::size_t N>
    [[gnu::always_inline]] static lane_vector<T, N> slope(lane_vector<T, N> x, lane_vector<T, N>) noexcept {
        using vector = lane_vector<T, N>;
        auto const one = vector::all(1), share = one / divisor(x, x * x);
        auto const by_u =
            x * share * (one - share); // 0 far from 0, and stays so: no square of x, which may be infinite
        return multiply_add(by_u * x, vector::all(T(3 * cube)) * x, multiply_add(by_u, vector::all(T(twice)), share));
    }

private:
    // 2 u = x (twice + cube x^2)
    static constexpr double twice = 2 * gelu_tanh_function::scale, cube = twice * gelu_tanh_function::cube;

    /// 1 + exp(-2 u).
    template<class T, std::size_t N>
    [[gnu::always_inline]] static lane_vector<T, N> divisor(lane_vector<T, N> x, lane_vector<T, N> square) noexcept {
        using vector = lane_vector<T, N>;
        constexpr double log2_e = 1.44269504088896340736;
        return one_and_power_of_two(
            x * multiply_add(vector::all(T(-cube * log2_e)), square, vector::all(T(-twice * log2_e))));
    }
};

/// y = F(x), n values; y may be x. A value's bits do not depend on its place.
template<class F, class T>
TRIREME_NOINLINE void activation_forward(portable, T const* x, T* y, std::size_t n) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for_registers<vector>(n, [=](std::size_t i, auto count) {
        register_function<F>::value(vector::load(x + i, count)).store(y + i, count);
    });
}

/// dx = dy * F'(x), n values, with x and y of the forward pass; dx may be dy.
template<class F, class T>
TRIREME_NOINLINE void activation_backward_input(portable, T const* x, T const* y, T const* dy, T* dx,
                                                std::size_t n) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    for_registers<vector>(n, [=](std::size_t i, auto count) {
        auto const slope = register_function<F>::slope(vector::load(x + i, count), vector::load(y + i, count));
        (vector::load(dy + i, count) * slope).store(dx + i, count);
    });
}

} // namespace trireme::inline TRIREME_ISA
