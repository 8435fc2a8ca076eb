// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/device/host/stored_numbers.hpp>
#include <trireme/kernels/activation_functions.hpp>
#include <trireme/kernels/batch_norm_numbers.hpp>
#include <trireme/kernels/channels_last/policy.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/activation.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <type_traits>

namespace trireme::detail::inline TRIREME_ISA {

/// Values of whole positions, channels innermost, walked by whole registers, whatever the number of channels C is:
/// `length` is a multiple of both, and long enough that sums kept in memory do not wait for one another. Numbers of
/// each channel are repeated to that length. Many channels that fill no whole registers go position by position.
template<std::size_t C, class T>
struct channel_period {
    using vector = lane_vector<T, full_register<T>>;
    static constexpr std::size_t common = std::lcm(C, vector::size);
    static constexpr std::size_t length =
        C % vector::size != 0 && C > 1024 ? C : common * ((8 * vector::size + common - 1) / common);
    /// Values whose sums are taken at once, so that they are read again from the cache, and rounding stays small.
    static constexpr std::size_t block = std::max<std::size_t>(1, 16384 / length) * length;

    alignas(64) T of[length] = {};

    /// of[i] = value(channel of i)
    template<class F>
    void set(F const& value) noexcept {
        for (std::size_t i = 0; i < length; i += C)
            for (std::size_t c = 0; c < C; ++c) of[i + c] = value(c);
    }
    T sum(std::size_t c) const noexcept {
        T s = of[c];
        for (auto i = c + C; i < length; i += C) s += of[i];
        return s;
    }
    auto at(std::size_t i, auto count) const noexcept { return vector::load(of + i, count); }

    /// f(i, k, count): value i and its place k here.
    template<class F>
    [[gnu::always_inline]] static void walk(std::size_t begin, std::size_t end, F const& f) {
        for (auto base = begin; base < end; base += length)
            for_registers<vector>(std::min(length, end - base),
                                  [&](std::size_t k, auto count) { f(base + k, k, count); });
    }
};

/// Computes batch norm's result for x, before a function behind it.
template<std::size_t C>
struct normalising {
    using period = channel_period<C, float>;
    using vector = typename period::vector;
    period middle, scale, shift;

    explicit normalising(batch_norm_numbers<float> const& of) noexcept {
        middle.set([&](std::size_t c) { return of.mean[c]; });
        scale.set([&](std::size_t c) { return of.weight[c] * of.deviation[c]; });
        shift.set([&](std::size_t c) { return of.bias[c]; });
    }
    [[gnu::always_inline]] vector apart(vector x, std::size_t at, auto count) const noexcept {
        return x - middle.at(at, count);
    }
    [[gnu::always_inline]] vector value(vector apart, std::size_t at, auto count) const noexcept {
        return multiply_add(apart, scale.at(at, count), shift.at(at, count));
    }
    /// dy, or what it is before F.
    template<class F>
    [[gnu::always_inline]] vector gradient(vector dy, vector apart, std::size_t at, auto count) const noexcept {
        if constexpr (std::is_same_v<F, identity_function>) {
            return dy;
        } else {
            auto const v = value(apart, at, count);
            return dy * register_function<F>::slope(v, register_function<F>::value(v));
        }
    }
};

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// Mean, and the sum of squared differences from it, of every channel. x: N x positions x C. Each block of values takes
/// its own mean first, and is joined with those before it as portable's granules are, so that nothing cancels.
/// Cost: the values are read once from memory, and once from the cache.
template<class G, std::size_t, channels_last_kernels K, class A>
TRIREME_NOINLINE void batch_norm_gather(K const& k, A const* x, batch_norm_numbers<float> const& of) {
    if (!k.computing()) return;
    float *const mean = of.mean, *const squares = of.deviation;
    using period = detail::channel_period<G::channels, float>;
    using vector = typename period::vector;
    auto const all = k.samples() * G::positions * G::channels;
    for (std::size_t begin = 0; begin < all; begin += period::block) {
        auto const end = std::min(all, begin + period::block);
        auto const here = static_cast<float>((end - begin) / G::channels),
                   there = static_cast<float>(begin / G::channels);
        period sums, means, differences;
        period::walk(begin, end, [&](std::size_t i, std::size_t at, auto n) {
            (sums.at(at, n) + read_numbers<vector>(x + i, n)).store(sums.of + at, n);
        });
        float own[G::channels];
        for (std::size_t c = 0; c < G::channels; ++c) own[c] = sums.sum(c) / here;
        means.set([&](std::size_t c) { return own[c]; });
        period::walk(begin, end, [&](std::size_t i, std::size_t at, auto n) {
            auto const apart = read_numbers<vector>(x + i, n) - means.at(at, n);
            multiply_add(apart, apart, differences.at(at, n)).store(differences.of + at, n);
        });
        float const part = here / (here + there), weight = part * there;
        for (std::size_t c = 0; c < G::channels; ++c) {
            float const apart = begin == 0 ? 0.0f : own[c] - mean[c];
            mean[c] = begin == 0 ? own[c] : mean[c] + apart * part;
            squares[c] = (begin == 0 ? 0.0f : squares[c]) + differences.sum(c) + apart * apart * weight;
        }
    }
}

/// y = F(weight (x - mean) deviation + bias), of every channel; deviation is 1 / sqrt(variance + epsilon). F is the
/// epilogue of the policy.
template<class G, std::size_t, channels_last_kernels K, class A>
TRIREME_NOINLINE void batch_norm_forward(K const& k, A const* x, batch_norm_numbers<float> const& of, A* y) {
    if (!k.computing()) return;
    using F = typename K::epilogue;
    using period = detail::channel_period<G::channels, float>;
    using vector = typename period::vector;
    detail::normalising<G::channels> const norm(of);
    period::walk(0, k.samples() * G::positions * G::channels, [&](std::size_t i, std::size_t at, auto n) {
        auto const v = norm.value(norm.apart(read_numbers<vector>(x + i, n), at, n), at, n);
        if constexpr (std::is_same_v<F, identity_function>)
            write_numbers(v, y + i, n);
        else
            write_numbers(register_function<F>::value(v), y + i, n);
    });
}

/// sums[c] = that of dy, sums[C + c] = that of dy times the normalised x. With an epilogue dy is the gradient by what
/// the function gave, and is taken times its slope at what weight and bias make of x.
template<class G, std::size_t, channels_last_kernels K, class A>
TRIREME_NOINLINE void batch_norm_backward_gather(K const& k, A const* x, A const* dy,
                                                 batch_norm_numbers<float> const& of) {
    if (!k.computing()) return;
    using F = typename K::epilogue;
    using period = detail::channel_period<G::channels, float>;
    using vector = typename period::vector;
    detail::normalising<G::channels> const norm(of);
    auto const all = k.samples() * G::positions * G::channels;
    std::fill_n(of.sums, 2 * G::channels, 0.0f);
    for (std::size_t begin = 0; begin < all; begin += period::block) {
        period plain, with_x;
        period::walk(begin, std::min(all, begin + period::block), [&](std::size_t i, std::size_t at, auto n) {
            auto const apart = norm.apart(read_numbers<vector>(x + i, n), at, n);
            auto const gradient = norm.template gradient<F>(read_numbers<vector>(dy + i, n), apart, at, n);
            (plain.at(at, n) + gradient).store(plain.of + at, n);
            multiply_add(gradient, apart, with_x.at(at, n)).store(with_x.of + at, n);
        });
        for (std::size_t c = 0; c < G::channels; ++c) {
            of.sums[c] += plain.sum(c);
            of.sums[G::channels + c] += with_x.sum(c) * of.deviation[c];
        }
    }
}

/// dx = weight deviation (dy - mean of dy - normalised x times mean of dy times it), dy taken as above; dx may be dy.
template<class G, std::size_t, channels_last_kernels K, class A>
TRIREME_NOINLINE void batch_norm_backward_input(K const& k, A const* x, A const* dy,
                                                batch_norm_numbers<float> const& of, A* dx) {
    if (!k.computing()) return;
    using F = typename K::epilogue;
    using period = detail::channel_period<G::channels, float>;
    using vector = typename period::vector;
    detail::normalising<G::channels> const norm(of);
    period slope, shift;
    auto const factor = [&](std::size_t c) { return -of.weight[c] * of.deviation[c]; };
    slope.set([&](std::size_t c) { return factor(c) * of.deviation[c] * of.sums[G::channels + c]; });
    shift.set([&](std::size_t c) { return factor(c) * of.sums[c]; });
    period::walk(0, k.samples() * G::positions * G::channels, [&](std::size_t i, std::size_t at, auto n) {
        auto const apart = norm.apart(read_numbers<vector>(x + i, n), at, n);
        auto const gradient = norm.template gradient<F>(read_numbers<vector>(dy + i, n), apart, at, n);
        auto const by_x = multiply_add(apart, slope.at(at, n), shift.at(at, n));
        write_numbers(multiply_add(gradient, norm.scale.at(at, n), by_x), dx + i, n);
    });
}

} // namespace trireme::inline TRIREME_ISA
