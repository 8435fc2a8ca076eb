// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/macros.hpp>
#include <trireme/kernels/blocks/support.hpp>

namespace trireme::blocks {

/// A logit that may be the largest. A NaN counts as the largest, and among equals the first.
template<class A>
struct candidate {
    A value;
    u32 place;

    TRIREME_HOST_DEVICE void meet(A other, u32 other_place) {
        bool const nan = value != value, other_nan = other != other;
        bool const equal = value == other || (nan && other_nan);
        if (equal ? other_place < place : !nan && (other_nan || other > value)) {
            value = other;
            place = other_place;
        }
    }
};

} // namespace trireme::blocks
