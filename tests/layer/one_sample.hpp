// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/kernels/portable/policy.hpp>

#include <cstddef>

/// The portable kernels, one sample per granule: those that a batch's last few samples go through.
struct one_sample : trireme::portable {
    template<class T>
    static constexpr std::size_t lanes = 1;
};
