// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <CLI/CLI.hpp>

#include <trireme/core/errors.hpp>

#include <charconv>
#include <iostream>
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

/// False if only --help was asked for, and has been printed. Throws usage_error, with a sentence for the user.
inline bool parse_flags(CLI::App& app, int argc, char const* const* argv) {
    try {
        app.parse(argc, argv);
    } catch (CLI::CallForHelp const&) {
        std::cout << app.help();
        return false;
    } catch (CLI::ParseError const& e) {
        throw trireme::usage_error(std::string(e.what()) + "; try --help");
    }
    return true;
}
