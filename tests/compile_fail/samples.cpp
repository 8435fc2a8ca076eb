// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Samples: what a trainer learns from.
// On the page: samples
#include "prelude.hpp"

namespace tri0099 {
// Numbers alone do not say where one sample ends, and what is to be learnt of it.
using net = network<input<4>, linear<3>>;
inline double learn(std::vector<float> const& numbers, [[maybe_unused]] std::vector<int> const& labels) {
    trainer<net, cross_entropy, sgd> t;
#if defined(NUMBERS_ALONE)
    // NUMBERS_ALONE: TRI0099 | samples_in_memory | std::vector<float
    // errors <= 1
    return t.step(numbers).loss;
#elif defined(TESTED_ON_NUMBERS)
    // TESTED_ON_NUMBERS: TRI0099 | samples_in_memory | std::vector<float
    // errors <= 1
    return t.evaluate(numbers).loss;
#else
    return t.step(samples_in_memory(numbers, make_shape(4), labels, 3)).loss;
#endif
}
} // namespace tri0099
