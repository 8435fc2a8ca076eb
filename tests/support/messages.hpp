// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/core/errors.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

// Words of messages, and the messages of errors that are thrown.
namespace test_support {

inline bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

/// The number of places at which a part begins in a text.
inline std::size_t count_of(std::string const& text, std::string const& part) {
    std::size_t n = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
}

/// True if a message has all of these parts; tells the one that is missing.
inline bool says(std::string const& message, std::initializer_list<char const*> parts) {
    for (char const* p : parts)
        if (message.find(p) == std::string::npos) {
            MESSAGE("missing: ", p, " in: ", message);
            return false;
        }
    return true;
}

/// The message of the Error that `f` throws; `otherwise` if it throws none.
template<class Error, class F>
std::string text_of_error(F&& f, char const* otherwise = "nothing was thrown") {
    try {
        f();
    } catch (Error const& e) {
        return e.what();
    }
    return otherwise;
}

/// The message of the usage_error that `f` throws; empty if it throws none.
template<class F>
std::string refusal(F&& f) {
    return text_of_error<trireme::usage_error>(f, "");
}

/// The message and the byte of the data_error that `f` throws; an empty message if it throws none.
struct fault {
    std::string what = {};
    std::uint64_t byte = 0;
};
template<class F>
fault fault_of(F&& f) {
    try {
        f();
    } catch (trireme::data_error const& e) {
        return {e.what(), e.offset()};
    }
    return {};
}

} // namespace test_support
