// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>

/// The command line of `pipelines`, parsed in a translation unit of its own.
struct pipelines_flags {
    int stages = 4; // of one_f_one_b: that many devices
    int micro_batches = 8;
    std::string svg; // a folder; empty: no pictures

    /// Nothing if only --help was asked for, and has been printed. Throws usage_error, with a sentence for the user.
    static std::optional<pipelines_flags> parse(int argc, char const* const* argv);
};
