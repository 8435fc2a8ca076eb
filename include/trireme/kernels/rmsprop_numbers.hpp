// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace trireme {

/// Numbers of an RMSprop update beside its arrays; see sgd_numbers for how kernels get them.
template<class T>
struct rmsprop_numbers {
    T rate = 0;
    T decay = 0;     ///< weight decay
    T smoothing = 0; ///< of the mean of the gradients' squares
    T epsilon = 0;
    T momentum = 0;
};

} // namespace trireme
