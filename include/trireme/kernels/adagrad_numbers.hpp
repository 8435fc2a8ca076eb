// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/device/host/isa.hpp>

#include <cstdint>

namespace trireme {

/// Numbers of an Adagrad update beside its arrays; see sgd_numbers for how kernels get them.
template<class T>
struct adagrad_numbers {
    T rate = 0;
    T decay = 0;      ///< weight decay
    T rate_decay = 0; ///< of the rate, with the number of updates
    T initial = 0;    ///< added to every sum of squares
    T epsilon = 0;
};

} // namespace trireme

namespace trireme::inline TRIREME_ISA {

/// The rate of the update behind `made` others.
template<class T>
TRIREME_HOST_DEVICE T adagrad_rate(adagrad_numbers<T> const& k, std::uint64_t made) {
    return k.rate / (T(1) + static_cast<T>(made) * k.rate_decay);
}

} // namespace trireme::inline TRIREME_ISA
