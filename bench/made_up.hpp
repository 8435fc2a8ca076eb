// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/trireme.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace bench {

/// `n` different images of 28 x 28 with labels, the same in every run: what a step costs does not depend on them.
inline trireme::labelled_images made_up_images(std::size_t n) {
    trireme::random_stream const random(0, trireme::random_purpose::user);
    std::vector<std::uint8_t> pixels(n * 28 * 28), labels(n);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(random.bits(i));
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::uint8_t>(random.below(i, 10));
    return {std::move(pixels), std::move(labels), 28, 28, 10};
}

} // namespace bench
