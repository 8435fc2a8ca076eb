// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/exp.hpp>
#include <trireme/device/host/lanes.hpp>
#include <trireme/kernels/portable/policy.hpp>
#include <trireme/kernels/soft_targets.hpp>

#include <cmath>
#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

/// The loss of a sample: `apart` is how far the label's logit lies from the largest, `spread` the sum of that, times
/// the weight, over all classes.
template<class Targets, class T>
[[gnu::always_inline]] inline T soft_loss(int label, T sum, T apart, T spread) noexcept {
    if (!Targets::counts(label)) return 0;
    T const known = Targets::template share<T>(label) * apart + T(Targets::of_each) * spread;
    return Targets::template all_shares<T>(label) * std::log(sum) - known;
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// loss = -sum of q log softmax(logits) over the classes, and dlogits = weight * (sum of q * softmax(logits) - q),
/// where Targets says q of each label; both 0 for a label that does not count. logits, dlogits: Classes x Lanes;
/// labels, weight, loss: Lanes. The loss is not multiplied by `weight`.
template<class Targets, std::size_t Classes, std::size_t Lanes, class T>
TRIREME_NOINLINE void soft_cross_entropy_gradient(portable, T const* logits, int const* labels, T const* weight,
                                                  T* dlogits, T* loss) noexcept {
    constexpr std::size_t width = register_lanes<T, Lanes>;
    using vector = lane_vector<T, width>;
    for (std::size_t lane = 0; lane < Lanes; lane += width) {
        auto largest = vector::load(logits + lane);
        for (std::size_t c = 1; c < Classes; ++c) {
            auto const here = vector::load(logits + c * Lanes + lane);
            largest = vector::select(here > largest, here, largest);
        }
        auto sum = vector::all(0), spread = vector::all(0);
        for (std::size_t c = 0; c < Classes; ++c) {
            auto const apart = vector::load(logits + c * Lanes + lane) - largest;
            auto const e = exponential_of_negative(apart);
            sum = sum + e;
            if constexpr (Targets::spreads)
                spread = multiply_add(apart, vector::all(Targets::template weight<T>(c)), spread);
            e.store(dlogits + c * Lanes + lane);
        }
        T sums[width], larges[width], spreads[width], factors[width], scales[width], of_labels[width];
        sum.store(sums);
        largest.store(larges);
        spread.store(spreads);
        for (std::size_t i = 0; i < width; ++i) {
            int const label = labels[lane + i];
            bool const counts = Targets::counts(label);
            T const apart = counts ? logits[static_cast<std::size_t>(label) * Lanes + lane + i] - larges[i] : T(0);
            loss[lane + i] = detail::soft_loss<Targets>(label, sums[i], apart, spreads[i]);
            scales[i] = counts ? weight[lane + i] : T(0);
            factors[i] = counts ? scales[i] * Targets::template all_shares<T>(label) / sums[i] : T(0);
            of_labels[i] = counts ? scales[i] * Targets::template share<T>(label) : T(0);
        }
        auto const factor = vector::load(factors), each = vector::load(scales) * vector::all(T(Targets::of_each));
        for (std::size_t c = 0; c < Classes; ++c) {
            T* const at = dlogits + c * Lanes + lane;
            auto d = factor * vector::load(at);
            if constexpr (Targets::spreads) d = d - each * vector::all(Targets::template weight<T>(c));
            d.store(at);
        }
        for (std::size_t i = 0; i < width; ++i) {
            T* const of_lane = dlogits + lane + i;
            if (int const label = labels[lane + i]; Targets::counts(label))
                of_lane[static_cast<std::size_t>(label) * Lanes] -= of_labels[i];
            else // 0 times what is not finite would be NaN
                for (std::size_t c = 0; c < Classes; ++c) of_lane[c * Lanes] = 0;
        }
    }
}

/// The loss as above, and correct = 1 where the first largest logit is that of a label that counts and has a weight. A
/// NaN counts as the largest.
template<class Targets, std::size_t Classes, std::size_t Lanes, class T>
TRIREME_NOINLINE void soft_cross_entropy(portable, T const* logits, int const* labels, T* loss, int* correct) noexcept {
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
        auto sum = vector::all(0), spread = vector::all(0);
        for (std::size_t c = 0; c < Classes; ++c) {
            auto const apart = vector::load(logits + c * Lanes + lane) - largest;
            sum = sum + exponential_of_negative(apart);
            if constexpr (Targets::spreads)
                spread = multiply_add(apart, vector::all(Targets::template weight<T>(c)), spread);
        }
        T sums[width], larges[width], bests[width], spreads[width];
        sum.store(sums);
        largest.store(larges);
        best.store(bests);
        spread.store(spreads);
        for (std::size_t i = 0; i < width; ++i) {
            int const label = labels[lane + i];
            bool const counts = Targets::counts(label);
            T const apart = counts ? logits[static_cast<std::size_t>(label) * Lanes + lane + i] - larges[i] : T(0);
            loss[lane + i] = detail::soft_loss<Targets>(label, sums[i], apart, spreads[i]);
            correct[lane + i] = Targets::is_scored(label) && bests[i] == T(label) ? 1 : 0;
        }
    }
}

} // namespace trireme::inline TRIREME_ISA
