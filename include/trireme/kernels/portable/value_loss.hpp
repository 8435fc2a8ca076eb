// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/loss_functions.hpp>
#include <trireme/kernels/portable/policy.hpp>

#include <cstddef>

namespace trireme::inline TRIREME_ISA {

/// loss = the mean of F over a sample's values, and dx = weight / Values * F'. x, targets, dx: Values x Lanes; weight,
/// loss: Lanes. The loss is not weighted. Lanes are innermost, so that the compiler makes vectors of what has no
/// transcendental function.
template<class F, std::size_t Values, std::size_t Lanes, class T>
TRIREME_NOINLINE void value_loss_gradient(portable, T const* TRIREME_RESTRICT x, T const* TRIREME_RESTRICT targets,
                                          T const* TRIREME_RESTRICT weight, T* TRIREME_RESTRICT dx,
                                          T* TRIREME_RESTRICT loss) noexcept {
    T sum[Lanes] = {}, scale[Lanes];
    for (std::size_t lane = 0; lane < Lanes; ++lane) scale[lane] = weight[lane] / T(Values);
    for (std::size_t i = 0; i < Values; ++i)
        for (std::size_t lane = 0; lane < Lanes; ++lane) {
            auto const at = i * Lanes + lane;
            sum[lane] += F::value(x[at], targets[at]);
            dx[at] = scale[lane] * F::slope(x[at], targets[at]);
        }
    for (std::size_t lane = 0; lane < Lanes; ++lane) loss[lane] = sum[lane] / T(Values);
}

/// The loss as above; of logits also the number of a sample's right answers, unless `correct` is null.
template<class F, std::size_t Values, std::size_t Lanes, class T>
TRIREME_NOINLINE void value_loss(portable, T const* TRIREME_RESTRICT x, T const* TRIREME_RESTRICT targets,
                                 T* TRIREME_RESTRICT loss, [[maybe_unused]] int* correct = nullptr) noexcept {
    T sum[Lanes] = {};
    for (std::size_t i = 0; i < Values; ++i)
        for (std::size_t lane = 0; lane < Lanes; ++lane)
            sum[lane] += F::value(x[i * Lanes + lane], targets[i * Lanes + lane]);
    for (std::size_t lane = 0; lane < Lanes; ++lane) loss[lane] = sum[lane] / T(Values);
    if constexpr (is_of_logits<F>) {
        if (correct == nullptr) return;
        int right[Lanes] = {};
        for (std::size_t i = 0; i < Values; ++i)
            for (std::size_t lane = 0; lane < Lanes; ++lane)
                right[lane] += says_label(x[i * Lanes + lane], targets[i * Lanes + lane]) ? 1 : 0;
        for (std::size_t lane = 0; lane < Lanes; ++lane) correct[lane] = right[lane];
    }
}

} // namespace trireme::inline TRIREME_ISA
