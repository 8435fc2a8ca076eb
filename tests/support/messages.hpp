// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>

#include <string>

// What tests look for in messages.
namespace test_support {

inline bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

/// The message of the usage_error that `f` throws; empty if it throws none.
template<class F>
std::string refusal(F&& f) {
    try {
        f();
    } catch (trireme::usage_error const& e) {
        return e.what();
    }
    return {};
}

} // namespace test_support
