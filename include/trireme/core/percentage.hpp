// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <limits>
#include <type_traits>

namespace trireme {

/// A share in hundredths, `percent<50>`: a bare number might as well be a probability.
enum class percentage : int {};
template<int N>
inline constexpr percentage percent = static_cast<percentage>(N);

namespace detail {

/// True for a percentage from `least` to `most`, and for no bare number.
template<auto Share>
constexpr bool is_percentage(percentage least,
                             percentage most = static_cast<percentage>(std::numeric_limits<int>::max())) noexcept {
    if constexpr (std::is_same_v<decltype(Share), percentage>)
        return Share >= least && Share <= most;
    else
        return false;
}

} // namespace detail

} // namespace trireme
