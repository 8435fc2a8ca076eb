// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The command line of microgpt as a plain struct; parsing it is in microgpt_flags.cpp.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

struct microgpt_flags {
    std::string text;           // names, one per line
    std::uint64_t steps = 1000; // of one name each
    float learning_rate = 0.01f;
    float temperature = 0.5f; // of the names that it invents
    std::size_t names = 20;   // that it invents
    std::uint64_t seed = 1;

    /// Nothing if only --help was asked for, and has been printed. Throws usage_error, with a sentence for the user.
    static std::optional<microgpt_flags> parse(int argc, char const* const* argv);
};
