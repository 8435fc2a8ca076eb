// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>
#include <trireme/core/macros.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace trireme {

/// The state of a training between two steps, in canonical coordinates: it says nothing of devices. What is left is in
/// the program: the network, the options, the samples.
template<class T>
struct training_snapshot {
    std::vector<T> parameters = {}, buffers = {}; ///< all numbers of the network, in the order of its layers
    std::vector<std::vector<T>> optimizer = {};   ///< the arrays that it keeps, a number for each parameter
    std::uint64_t updates = 0;                    ///< updates made, of optimizers that count them
    std::uint64_t steps = 0;                      ///< steps begun
    std::uint32_t epochs = 0;                     ///< epochs begun
    std::uint64_t seed = 0;                       ///< seed of the training
    /// Factor of a step's gradient, before the schedule of the option `rate`; has to be given.
    float learning_rate = std::numeric_limits<float>::quiet_NaN();
};

namespace detail {

/// Throws usage_error if lists have other sizes than these, or the training was begun with another seed.
template<class T>
TRIREME_COLD void check_snapshot(training_snapshot<T> const& s, std::size_t parameters, std::size_t buffers,
                                 std::size_t arrays, std::uint64_t seed) {
    bool fits = s.parameters.size() == parameters && s.buffers.size() == buffers && s.optimizer.size() == arrays;
    for (auto const& array : s.optimizer) fits = fits && array.size() == parameters;
    if (!fits)
        throw usage_error("restore was given lists of other sizes than it has made: fill in those that are there, "
                          "parameters, buffers, and the arrays of the optimizer");
    if (s.seed != seed)
        throw usage_error("the training was begun with seed " + std::to_string(s.seed) +
                          ", and this trainer has seed " + std::to_string(seed) +
                          ": its samples would come in another order; give the trainer that seed");
}

} // namespace detail
} // namespace trireme
