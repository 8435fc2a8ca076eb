// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "standard_output.hpp"
#include "strategy_names.hpp"

#include <CLI/CLI.hpp>

#include <trireme/core/errors.hpp>
#include <trireme/parallel/layout.hpp>

#include <charconv>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

// What the examples' command lines accept.

/// A number from `least` to `most`, and nothing else: CLI11 alone would read 010 as 8, and take NaN.
template<class T>
CLI::Validator number(T least, T most, char const* kind) {
    auto const check = [=](std::string const& text) -> std::string {
        if constexpr (std::is_integral_v<T>)
            if (text.size() > 1 && text.front() == '0')
                return "'" + text +
                       "' begins with 0, which other programs take for a number to the base 8; leave it out";
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

/// Adds --reproducible, the same flag in every example that has it.
template<class Flags>
CLI::Option* add_reproducible_flag(CLI::App& app, Flags& f) {
    return app.add_option("--reproducible", f.reproducible, "logical shards: the same bits on up to V devices; 0: off")
        ->check(whole_number<std::size_t>(0, trireme::max_logical_shards))
        ->type_name("V")
        ->capture_default_str();
}
/// Adds --strategy, likewise.
template<class Flags>
void add_strategy_flag(CLI::App& app, Flags& f) {
    app.add_option("--strategy", f.strategy, "how devices add their gradients")
        ->check(CLI::IsMember(std::vector<std::string>(std::begin(strategy_names), std::end(strategy_names))))
        ->type_name("NAME")
        ->capture_default_str();
}
/// Adds --deadline, likewise.
template<class Flags>
void add_deadline_flag(CLI::App& app, Flags& f) {
    app.add_option("--deadline", f.deadline, "seconds that a device may wait for another")
        ->check(number(0.01, 1e9, "number"))
        ->type_name("SECONDS")
        ->capture_default_str();
}

inline CLI::Validator some_name() {
    return CLI::Validator([](std::string const& text) { return text.empty() ? "the name is empty" : ""; }, "");
}

/// Two flags that name one file, by whichever path, would write into each other's, or into what is read. A schedule is
/// a file if its name ends as one.
inline void refuse_one_file_for_two_flags(CLI::App const& app) {
    struct named_file {
        std::string flag, name;
        std::filesystem::path path;
    };
    std::vector<named_file> files;
    for (auto const* option : app.get_options())
        if (option->count() != 0 &&
            (option->get_type_name() == "FILE" ||
             (option->get_name() == "--schedule" && option->results().front().ends_with(".csv")))) {
            auto const name = option->results().front();
            std::error_code none;
            auto path = std::filesystem::weakly_canonical(name, none);
            // a terminal or /dev/null takes what several write
            if (none || (std::filesystem::exists(path, none) && !std::filesystem::is_regular_file(path, none)))
                continue;
            for (auto const& other : files)
                if (path == other.path || std::filesystem::equivalent(path, other.path, none))
                    throw trireme::usage_error(other.flag + ' ' + other.name + " and " + option->get_name() + ' ' +
                                               name + " are one file; give each flag a file of its own");
            files.push_back({option->get_name(), name, std::move(path)});
        }
}

/// Throws usage_error if `flag` is on the command line and does nothing, for there is no flag such as `wanted`.
inline void refuse_without(CLI::App const& app, std::string const& flag, bool there, char const* wanted) {
    if (!there && app.get_option(flag)->count() != 0)
        throw trireme::usage_error(flag + " is for " + wanted + ": add that, or leave out " + flag);
}

/// False if only --help was asked for, and has been printed. Throws usage_error, with a sentence for the user.
inline bool parse_flags(CLI::App& app, int argc, char const* const* argv) {
    watch_standard_output();
    try {
        app.parse(argc, argv);
    } catch (CLI::CallForHelp const&) {
        std::cout << app.help();
        return false;
    } catch (CLI::ParseError const& e) {
        throw trireme::usage_error(std::string(e.what()) + "; try --help");
    }
    refuse_one_file_for_two_flags(app);
    return true;
}
