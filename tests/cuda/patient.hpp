// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdlib>

namespace cuda_test {

/// A trainer's options with the deadline of TRIREME_TEST_DEADLINE, in seconds: tests/gpu.py sets a long one where a
/// sanitizer makes every kernel slow.
template<class Options>
Options patient(Options o) {
    using seconds = decltype(o.deadline);
    if (auto const* const told = std::getenv("TRIREME_TEST_DEADLINE"); told != nullptr)
        o.deadline = static_cast<seconds>(std::strtod(told, nullptr));
    return o;
}

} // namespace cuda_test
