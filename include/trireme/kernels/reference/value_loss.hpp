// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/loss_functions.hpp>
#include <trireme/kernels/reference/policy.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// loss = the mean of F over a sample's values, and dx = weight / Values * F'. x, targets, dx: Values x Lanes; weight,
/// loss: Lanes. The loss is not weighted.
template<class F, std::size_t Values, std::size_t Lanes, class T>
TRIREME_NOINLINE void value_loss_gradient(reference, T const* x, T const* targets, T const* weight, T* dx,
                                          T* loss) noexcept {
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        T sum = 0;
        for (std::size_t at = lane; at < Values * Lanes; at += Lanes) {
            sum += F::value(x[at], targets[at]);
            dx[at] = weight[lane] / T(Values) * F::slope(x[at], targets[at]);
        }
        loss[lane] = sum / T(Values);
    }
}

/// The loss as above; of logits also the number of a sample's right answers, unless `correct` is null.
template<class F, std::size_t Values, std::size_t Lanes, class T>
TRIREME_NOINLINE void value_loss(reference, T const* x, T const* targets, T* loss,
                                 [[maybe_unused]] int* correct = nullptr) noexcept {
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
        T sum = 0;
        for (std::size_t at = lane; at < Values * Lanes; at += Lanes) sum += F::value(x[at], targets[at]);
        loss[lane] = sum / T(Values);
        if constexpr (is_of_logits<F>) {
            int right = 0;
            for (std::size_t at = lane; at < Values * Lanes; at += Lanes)
                right += says_label(x[at], targets[at]) ? 1 : 0;
            if (correct != nullptr) correct[lane] = right;
        }
    }
}

} // namespace trireme::inline TRIREME_ISA
