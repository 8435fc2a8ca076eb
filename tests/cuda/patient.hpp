// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdlib>

namespace cuda_test {

/// Run options get the deadline of TRIREME_TEST_DEADLINE, in seconds: tests/gpu.py sets a long one where a sanitizer
/// makes every kernel slow.
template<class RunOptions>
RunOptions patient(RunOptions r) {
    using seconds = decltype(r.deadline);
    if (auto const* const told = std::getenv("TRIREME_TEST_DEADLINE"); told != nullptr)
        r.deadline = static_cast<seconds>(std::strtod(told, nullptr));
    return r;
}

} // namespace cuda_test
