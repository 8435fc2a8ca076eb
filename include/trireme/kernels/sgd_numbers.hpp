// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace trireme {

/// The arguments of an SGD update beside its arrays. Kernels of the host take them by value; those of an accelerator by
/// their address in the accelerator's memory, because their calls are recorded once and the numbers change from step to
/// step.
template<class T>
struct sgd_numbers {
    T rate = 0;
    T decay = 0;
    T momentum = 0;
};

} // namespace trireme
