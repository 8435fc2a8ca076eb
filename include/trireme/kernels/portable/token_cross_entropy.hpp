// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/exp.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/geometry.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <cmath>
#include <cstddef>

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

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// The mean over a sample's tokens of log(sum exp(x)) - x[target]; and how many targets have the largest logit, the
/// first of equal ones. G: a token_geometry, whose width are the classes. x: Tokens x Width, targets: Tokens.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void token_cross_entropy_loss(portable, T const* x, int const* targets, T* loss,
                                               int* correct) noexcept {
    T sum = 0;
    int right = 0;
    for (std::size_t t = 0; t < G::tokens; ++t, x += G::width) {
        auto const target = static_cast<std::size_t>(targets[t]), best = detail::largest_logit<G::width>(x);
        T* const nowhere = nullptr;
        sum += std::log(detail::exponentials<G::width>(x, x[best], nowhere)) - (x[target] - x[best]);
        right += best == target ? 1 : 0;
    }
    *loss = sum / static_cast<T>(G::tokens);
    *correct = right;
}

/// The loss, and dx = weight (softmax(x) - one_hot) / Tokens. A token's logits are read twice, dx is written twice.
template<class G, std::size_t Lanes, class T>
    requires(Lanes == 1)
TRIREME_NOINLINE void token_cross_entropy(portable, T const* x, int const* targets, T const* weight, T* dx,
                                          T* loss) noexcept {
    using vector = lane_vector<T, full_register<T>>;
    T const share = *weight / static_cast<T>(G::tokens);
    T all = 0;
    for (std::size_t t = 0; t < G::tokens; ++t, x += G::width, dx += G::width) {
        auto const target = static_cast<std::size_t>(targets[t]);
        T const top = x[detail::largest_logit<G::width>(x)], wanted = x[target]; // dx may be x
        T const sum = detail::exponentials<G::width>(x, top, dx);
        all += std::log(sum) - (wanted - top);
        auto const factor = vector::all(share / sum);
        T* const to = dx;
        for_registers<vector>(
            G::width, [=](std::size_t c, auto count) { (vector::load(to + c, count) * factor).store(to + c, count); });
        dx[target] -= share;
    }
    *loss = all / static_cast<T>(G::tokens);
}

} // namespace trireme::inline TRIREME_ISA
