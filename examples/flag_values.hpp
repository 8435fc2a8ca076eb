// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <CLI/CLI.hpp>

#include <charconv>
#include <sstream>
#include <string>
#include <system_error>

// What the examples' command lines accept.

/// A number from `least` to `most`, and nothing else: CLI11 alone would read 010 as 8, and take NaN.
template<class T>
CLI::Validator number(T least, T most, char const* kind) {
    auto const check = [=](std::string const& text) -> std::string {
        T value{};
        auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc{} && end == text.data() + text.size() && value >= least && value <= most) return {};
        std::ostringstream what;
        what << "'" << text << "' is not a " << kind << " from " << least << " to " << most;
        return what.str();
    };
    return CLI::Validator(check, "");
}

template<class T>
CLI::Validator whole_number(T least, T most) {
    return number(least, most, "whole number");
}

inline CLI::Validator some_name() {
    return CLI::Validator([](std::string const& text) { return text.empty() ? "the name is empty" : ""; }, "");
}
