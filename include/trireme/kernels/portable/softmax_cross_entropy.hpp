// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/exp.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <cmath>
#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// loss = -log softmax(logits)[label], and dlogits = weight * (softmax(logits) - onehot(label)).
/// logits, dlogits: Classes x Lanes; labels (0 <= label < Classes), weight, loss: Lanes. The loss is not weighted. The
/// largest logit is subtracted first, so no exponential overflows.
template<std::size_t Classes, std::size_t Lanes, class T>
TRIREME_NOINLINE void softmax_cross_entropy(portable, T const* logits, int const* labels, T const* weight, T* dlogits,
                                            T* loss) noexcept {
    constexpr std::size_t width = register_lanes<T, Lanes>;
    using vector = lane_vector<T, width>;
    for (std::size_t lane = 0; lane < Lanes; lane += width) {
        auto largest = vector::load(logits + lane);
        for (std::size_t c = 1; c < Classes; ++c) {
            auto const here = vector::load(logits + c * Lanes + lane);
            largest = vector::select(here > largest, here, largest);
        }
        auto sum = vector::all(0);
        for (std::size_t c = 0; c < Classes; ++c) {
            auto const e = exponential_of_negative(vector::load(logits + c * Lanes + lane) - largest);
            sum = sum + e;
            e.store(dlogits + c * Lanes + lane);
        }
        T sums[width], larges[width];
        sum.store(sums);
        largest.store(larges);
        for (std::size_t i = 0; i < width; ++i) {
            auto const label = static_cast<std::size_t>(labels[lane + i]);
            loss[lane + i] = std::log(sums[i]) - (logits[label * Lanes + lane + i] - larges[i]);
            dlogits[label * Lanes + lane + i] -= sums[i]; // e / sum - 1 = (e - sum) / sum
        }
        auto const weights = vector::load(weight + lane);
        for (std::size_t c = 0; c < Classes; ++c) {
            T* const at = dlogits + c * Lanes + lane;
            (weights * (vector::load(at) / sum)).store(at);
        }
    }
}

/// The loss as above, and correct = 1 where the first largest logit is the label's. A NaN counts as the largest.
template<std::size_t Classes, std::size_t Lanes, class T>
TRIREME_NOINLINE void softmax_cross_entropy_loss(portable, T const* logits, int const* labels, T* loss,
                                                 int* correct) noexcept {
    constexpr std::size_t width = register_lanes<T, Lanes>;
    using vector = lane_vector<T, width>;
    static_assert(Classes < std::size_t{1} << 24); // a class is counted in T
    for (std::size_t lane = 0; lane < Lanes; lane += width) {
        auto largest = vector::load(logits + lane), best = vector::all(0);
        for (std::size_t c = 1; c < Classes; ++c) {
            auto const here = vector::load(logits + c * Lanes + lane);
            auto const larger = (here > largest) | ((here != here) & (largest == largest));
            largest = vector::select(larger, here, largest);
            best = vector::select(larger, vector::all(T(c)), best);
        }
        auto sum = vector::all(0);
        for (std::size_t c = 0; c < Classes; ++c)
            sum = sum + exponential_of_negative(vector::load(logits + c * Lanes + lane) - largest);
        T sums[width], larges[width], bests[width];
        sum.store(sums);
        largest.store(larges);
        best.store(bests);
        for (std::size_t i = 0; i < width; ++i) {
            auto const label = static_cast<std::size_t>(labels[lane + i]);
            loss[lane + i] = std::log(sums[i]) - (logits[label * Lanes + lane + i] - larges[i]);
            correct[lane + i] = bests[i] == T(label) ? 1 : 0;
        }
    }
}

} // namespace trireme::inline TRIREME_ISA
