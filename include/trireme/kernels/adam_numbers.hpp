// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/isa.hpp>

#include <cmath>
#include <cstdint>

namespace trireme {

/// Numbers of an Adam update beside its arrays; see sgd_numbers for how kernels get them.
template<class T>
struct adam_numbers {
    T rate = 0;
    T decay = 0; ///< weight decay
    T beta1 = 0; ///< of the mean of the gradients
    T beta2 = 0; ///< of the mean of their squares
    T epsilon = 0;
};

} // namespace trireme

namespace trireme::inline TRIREME_ISA {

/// Means that began at zero are too small at first; these factors make up for it in the update behind `made` others.
template<class T>
struct adam_correction {
    T step = 1; ///< the rate, divided by 1 - beta1^t
    T root = 1; ///< 1 / sqrt(1 - beta2^t)

    TRIREME_HOST_DEVICE static adam_correction of(adam_numbers<T> const& k, std::uint64_t made) {
        auto const t = static_cast<T>(made + 1);
        return {k.rate / missing(k.beta1, t), T(1) / std::sqrt(missing(k.beta2, t))};
    }

    /// 1 - beta^t with all digits: in a difference of numbers near one most of them would be lost.
    TRIREME_HOST_DEVICE static T missing(T beta, T t) {
        return beta > T(0) ? -std::expm1(t * std::log(beta)) : T(1); // no logarithm of 0, which fast-math may not have
    }
};

} // namespace trireme::inline TRIREME_ISA
