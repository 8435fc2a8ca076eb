// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <stdexcept>
#include <string>

// An assertion for ranks of any kind of group: the error ends the rank, and the others learn of it.
namespace test_support {

inline void require(bool right, std::string const& otherwise) {
    if (!right) throw std::runtime_error(otherwise);
}

} // namespace test_support
