// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <doctest/doctest.h>

#include <string>

namespace test_support {

/// Tells why a test case leaves out itself or a part, if it does. summary.py counts the line as skipped.
inline bool left_out(bool leaves, std::string const& why) {
    if (leaves) MESSAGE("left out: ", why);
    return leaves;
}

} // namespace test_support
