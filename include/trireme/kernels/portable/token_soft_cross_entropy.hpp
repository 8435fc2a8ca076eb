// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/exp.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/portable/soft_cross_entropy.hpp>
#include <trireme/kernels/portable/tokens/reduction.hpp>
#include <trireme/kernels/soft_targets.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace trireme::detail::inline TRIREME_ISA {

/// The largest logit of a token, the first of equal ones: its place.
template<std::size_t Classes, class T>
inline std::size_t largest_logit(T const* x) noexcept {
    std::size_t best = 0;
    for (std::size_t c = 1; c < Classes; ++c)
        if (x[c] > x[best] || (x[c] != x[c] && x[best] == x[best])) best = c;
    return best;
}

/// to[c] = exp(x[c] - top); returns their sum. `to` may be null.
template<std::size_t Classes, class T>
inline T exponentials(T const* x, T top, T* to) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    auto const largest = vector::all(top);
    auto sums = vector::all(0);
    T rest = 0;
    for_registers<vector>(Classes, [&](std::size_t c, auto count) {
        auto const e = exponential_of_negative(vector::load(x + c, count) - largest);
        if (to != nullptr) e.store(to + c, count);
        if (count >= vector::size) {
            sums = sums + e;
        } else { // what stands behind the last class does not count
            T some[vector::size];
            e.store(some);
            for (std::size_t i = 0; i < count; ++i) rest += some[i];
        }
    });
    return sums.sum() + rest;
}

/// Weights of classes, and zeros behind the last, so that they are read by whole registers.
template<class Weights, std::size_t Classes, class T>
struct class_weight_table {
    alignas(64) T of[Classes + full_register<T>] = {};
    constexpr class_weight_table() noexcept {
        for (std::size_t c = 0; c < Classes; ++c) of[c] = static_cast<T>(weight_of_class<Weights>(c));
    }
};
template<class Weights, std::size_t Classes, class T>
inline constexpr class_weight_table<Weights, Classes, T> class_weights_of;

/// The weights of the classes from c on.
template<class Targets, std::size_t Classes, class T>
[[gnu::always_inline]] inline auto class_weights_from([[maybe_unused]] std::size_t c) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    if constexpr (std::is_void_v<typename Targets::weights>)
        return vector::all(1);
    else
        return vector::load(class_weights_of<typename Targets::weights, Classes, T>.of + c);
}

/// The sum over the classes of x[c] - top, times the class's weight; 0 where targets are not spread.
template<class Targets, std::size_t Classes, class T>
inline T spread_of_token([[maybe_unused]] T const* x, [[maybe_unused]] T top) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    if constexpr (!Targets::spreads)
        return 0;
    else
        return sum_of_token<Classes, T>([=](std::size_t c, auto count, vector sum) {
            auto const apart = (vector::load(x + c, count) - vector::all(top)).first(count);
            return multiply_add(apart, class_weights_from<Targets, Classes, T>(c), sum);
        });
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// loss = the sum over a sample's tokens of -q log softmax(x), where Targets says q of each label, 0 for one that does
/// not count; and how many of the labels that count and have a weight have the largest logit, the first of equal ones.
/// The loss is the mean over the tokens, if Targets weighs none. G: a token_geometry, whose width are the classes. x:
/// Tokens x Width, labels: Tokens.
template<class Targets, class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void token_soft_cross_entropy(portable, T const* x, int const* labels, T* loss,
                                               int* correct) noexcept {
    T all = 0;
    int right = 0;
    for (std::size_t t = 0; t < G::tokens; ++t, x += G::width) {
        int const label = labels[t];
        if (!Targets::counts(label)) continue;
        auto const target = static_cast<std::size_t>(label), best = detail::largest_logit<G::width>(x);
        T* const nowhere = nullptr;
        T const sum = detail::exponentials<G::width>(x, x[best], nowhere);
        all += detail::soft_loss<Targets>(label, sum, x[target] - x[best],
                                          detail::spread_of_token<Targets, G::width>(x, x[best]));
        right += Targets::is_scored(label) && best == target ? 1 : 0;
    }
    *loss = Targets::weighs ? all : all / static_cast<T>(G::tokens);
    *correct = right;
}

/// The loss, and dx = weight * (sum of q * softmax(x) - q), over Tokens, if Targets weighs none; dx may be x. A token's
/// logits are read twice, dx is written twice.
template<class Targets, class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void token_soft_cross_entropy_gradient(portable, T const* x, int const* labels, T const* weight, T* dx,
                                                        T* loss) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    T const scale = Targets::weighs ? *weight : *weight / static_cast<T>(G::tokens);
    T all = 0;
    for (std::size_t t = 0; t < G::tokens; ++t, x += G::width, dx += G::width) {
        int const label = labels[t];
        if (!Targets::counts(label)) {
            std::fill_n(dx, G::width, T(0));
            continue;
        }
        auto const target = static_cast<std::size_t>(label);
        T const top = detail::largest_of(x, G::width), apart = x[target] - top;
        T const spread = detail::spread_of_token<Targets, G::width>(x, top);
        T const sum = detail::exponentials<G::width>(x, top, dx);
        all += detail::soft_loss<Targets>(label, sum, apart, spread);
        auto const factor = vector::all(scale * Targets::template all_shares<T>(label) / sum);
        [[maybe_unused]] auto const each = vector::all(scale * T(Targets::of_each));
        T* const to = dx;
        for_registers<vector>(G::width, [=](std::size_t c, auto count) {
            auto d = vector::load(to + c, count) * factor;
            if constexpr (Targets::spreads) d = d - each * detail::class_weights_from<Targets, G::width, T>(c);
            d.store(to + c, count);
        });
        dx[target] -= scale * Targets::template share<T>(label);
    }
    *loss = Targets::weighs ? all : all / static_cast<T>(G::tokens);
}

} // namespace trireme::inline TRIREME_ISA
