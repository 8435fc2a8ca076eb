// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/reference/policy.hpp>

#include <cmath>
#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// loss = -log softmax(logits)[label], and dlogits = weight * (softmax(logits) - onehot(label)).
/// logits, dlogits: Classes x Lanes; labels (0 <= label < Classes), weight, loss: Lanes. The loss is not weighted. The
/// largest logit is subtracted first, so no exponential overflows.
template<std::size_t Classes, std::size_t Lanes, class T>
TRIREME_NOINLINE void softmax_cross_entropy(reference, T const* logits, int const* labels, T const* weight, T* dlogits,
                                            T* loss) noexcept {
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        auto const label = static_cast<std::size_t>(labels[lane]);
        T largest = logits[lane];
        for (std::size_t c = 0; c < Classes; ++c)
            if (logits[c * Lanes + lane] > largest) largest = logits[c * Lanes + lane];
        T sum = 0;
        for (std::size_t c = 0; c < Classes; ++c) sum += std::exp(logits[c * Lanes + lane] - largest);
        loss[lane] = std::log(sum) - (logits[label * Lanes + lane] - largest);
        for (std::size_t c = 0; c < Classes; ++c) {
            T const softmax = std::exp(logits[c * Lanes + lane] - largest) / sum;
            dlogits[c * Lanes + lane] = weight[lane] * (softmax - (c == label ? T(1) : T(0)));
        }
    }
}

/// The loss as above, and correct = 1 where the first largest logit is the label's. A NaN counts as the largest.
template<std::size_t Classes, std::size_t Lanes, class T>
TRIREME_NOINLINE void softmax_cross_entropy_loss(reference, T const* logits, int const* labels, T* loss,
                                                 int* correct) noexcept {
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        auto const label = static_cast<std::size_t>(labels[lane]);
        std::size_t best = 0;
        for (std::size_t c = 0; c < Classes; ++c) {
            T const here = logits[c * Lanes + lane], there = logits[best * Lanes + lane];
            if (here > there || (std::isnan(here) && !std::isnan(there))) best = c;
        }
        T const largest = logits[best * Lanes + lane];
        T sum = 0;
        for (std::size_t c = 0; c < Classes; ++c) sum += std::exp(logits[c * Lanes + lane] - largest);
        loss[lane] = std::log(sum) - (logits[label * Lanes + lane] - largest);
        correct[lane] = best == label ? 1 : 0;
    }
}

} // namespace trireme::inline TRIREME_ISA
