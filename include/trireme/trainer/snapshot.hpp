// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

/// The state of a training between two steps, in canonical coordinates: it says nothing of devices. What is left is in
/// the program: the network, the options, the samples.
template<class T>
struct training_snapshot {
    std::vector<T> parameters = {}, buffers = {};
    std::vector<std::vector<T>> optimizer = {}; ///< the arrays that it keeps, a number for each parameter
    std::uint64_t updates = 0;                  ///< made, of optimizers that count them
    std::uint64_t steps = 0;                    ///< begun
    std::uint32_t epochs = 0;                   ///< begun
    std::uint64_t seed = 0;
    float learning_rate = 0; ///< before the schedule of the option `rate`
};

} // namespace trireme
