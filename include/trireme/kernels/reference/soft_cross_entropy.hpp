// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/reference/policy.hpp>
#include <trireme/kernels/soft_targets.hpp>

#include <cmath>
#include <cstddef>

namespace trireme::detail::inline TRIREME_ISA {

/// The loss of one sample; 0 if its label does not count. Training and evaluating call the same instructions, so that
/// both have the same bits, however a compiler fuses products and sums.
template<class Targets, std::size_t Classes, std::size_t Lanes, class T>
TRIREME_NOINLINE T reference_soft_loss(T const* logits, int label, T largest) noexcept {
    if (!Targets::counts(label)) return 0;
    T sum = 0, loss = 0;
    for (std::size_t c = 0; c < Classes; ++c) sum += std::exp(logits[c * Lanes] - largest);
    for (std::size_t c = 0; c < Classes; ++c) {
        bool const is_label = c == static_cast<std::size_t>(label);
        T const q = T(Targets::of_each) * Targets::template weight<T>(c) +
                    (is_label ? Targets::template share<T>(label) : T(0));
        if (Targets::spreads || is_label) // else 0 times what may be infinite
            loss += q * (std::log(sum) - (logits[c * Lanes] - largest));
    }
    return loss;
}

} // namespace trireme::detail::inline TRIREME_ISA

namespace trireme::inline TRIREME_ISA {

/// loss = -sum of q log softmax(logits) over the classes, and dlogits = weight * (sum of q * softmax(logits) - q),
/// where Targets says q of each label; both 0 for a label that does not count. logits, dlogits: Classes x Lanes;
/// labels, weight, loss: Lanes. The loss is not multiplied by `weight`.
template<class Targets, std::size_t Classes, std::size_t Lanes, class T>
TRIREME_NOINLINE void soft_cross_entropy_gradient(reference, T const* logits, int const* labels, T const* weight,
                                                  T* dlogits, T* loss) noexcept {
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        T largest = logits[lane];
        for (std::size_t c = 1; c < Classes; ++c)
            if (logits[c * Lanes + lane] > largest) largest = logits[c * Lanes + lane];
        T sum = 0;
        for (std::size_t c = 0; c < Classes; ++c) sum += std::exp(logits[c * Lanes + lane] - largest);
        loss[lane] = detail::reference_soft_loss<Targets, Classes, Lanes>(logits + lane, labels[lane], largest);
        for (std::size_t c = 0; c < Classes; ++c) {
            auto const at = c * Lanes + lane;
            dlogits[at] = 0;
            if (!Targets::counts(labels[lane])) continue;
            T const all = Targets::template all_shares<T>(labels[lane]);
            T q = T(Targets::of_each) * Targets::template weight<T>(c);
            if (c == static_cast<std::size_t>(labels[lane])) q += Targets::template share<T>(labels[lane]);
            dlogits[at] = weight[lane] * (all * (std::exp(logits[at] - largest) / sum) - q);
        }
    }
}

/// The loss as above, and correct = 1 where the first largest logit is that of a label that counts and has a weight. A
/// NaN counts as the largest.
template<class Targets, std::size_t Classes, std::size_t Lanes, class T>
TRIREME_NOINLINE void soft_cross_entropy(reference, T const* logits, int const* labels, T* loss,
                                         int* correct) noexcept {
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        std::size_t best = 0;
        for (std::size_t c = 0; c < Classes; ++c) {
            T const here = logits[c * Lanes + lane], there = logits[best * Lanes + lane];
            if (here > there || (std::isnan(here) && !std::isnan(there))) best = c;
        }
        loss[lane] = detail::reference_soft_loss<Targets, Classes, Lanes>(logits + lane, labels[lane],
                                                                          logits[best * Lanes + lane]);
        correct[lane] = Targets::is_scored(labels[lane]) && best == static_cast<std::size_t>(labels[lane]) ? 1 : 0;
    }
}

} // namespace trireme::inline TRIREME_ISA
