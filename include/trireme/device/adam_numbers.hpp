// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>

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

/// Means that began at zero are too small at first; these factors make up for it in the update behind `made` others.
template<class T>
struct adam_correction {
    T step = 1; ///< the rate, divided by 1 - beta1^t
    T root = 1; ///< 1 / sqrt(1 - beta2^t)

    TRIREME_HOST_DEVICE static adam_correction of(adam_numbers<T> const& k, std::uint64_t made) {
        auto const t = static_cast<T>(made + 1);
        return {k.rate / (T(1) - std::pow(k.beta1, t)), T(1) / std::sqrt(T(1) - std::pow(k.beta2, t))};
    }
};

} // namespace trireme
