// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <limits>

namespace trireme {

/// Stands for no label, where samples or losses could name one to be ignored.
inline constexpr int no_label = std::numeric_limits<int>::min();

} // namespace trireme
