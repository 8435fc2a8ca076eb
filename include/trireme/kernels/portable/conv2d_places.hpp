// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/device/host/isa.hpp>

#include <algorithm>
#include <cstddef>

// Ranges tell which kernel places and output places of a convolution meet inside the image, along one axis.

namespace trireme::detail::inline TRIREME_ISA {

/// Places [begin, end), possibly none.
struct place_range {
    std::size_t begin, end;
};

constexpr place_range ordered(std::size_t begin, std::size_t end) noexcept { return {std::min(begin, end), end}; }

/// The places that are in both.
constexpr place_range common(place_range a, place_range b) noexcept {
    return ordered(std::max(a.begin, b.begin), std::min(a.end, b.end));
}

/// ceil(a / b) and ceil((a - less) / b), the latter 0 when less > a.
constexpr std::size_t ceil_div(std::size_t a, std::size_t less, std::size_t b) noexcept {
    return a > less ? (a - less + b - 1) / b : 0;
}

/// The kernel places whose input lies inside the image, for output place `out`.
constexpr place_range taps_inside(std::size_t out, std::size_t size, std::size_t kernel, std::size_t padding,
                                  std::size_t stride) noexcept {
    std::size_t const first = out * stride;
    return ordered(padding > first ? padding - first : 0,
                   std::min(kernel, size + padding > first ? size + padding - first : 0));
}

/// The output places whose input lies inside the image, for kernel place k.
constexpr place_range outputs_inside(std::size_t k, std::size_t size, std::size_t outputs, std::size_t padding,
                                     std::size_t stride) noexcept {
    return ordered(ceil_div(padding, k, stride), std::min(outputs, ceil_div(size + padding, k, stride)));
}

} // namespace trireme::detail::inline TRIREME_ISA
