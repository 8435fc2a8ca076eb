// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

namespace trireme {

/// A share in hundredths, `percent<50>`: a bare number might as well be a probability.
enum class percentage : int {};
template<int N>
inline constexpr percentage percent = static_cast<percentage>(N);

} // namespace trireme
