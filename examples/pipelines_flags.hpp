// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <optional>
#include <string>

/// The command line of `pipelines`, parsed in a translation unit of its own.
struct pipelines_flags {
    static constexpr int most_stages = 32, most_micro_batches = 128; // of the schedules that come with Trireme

    int stages = 4; // of one_f_one_b: that many devices
    int micro_batches = 8;
    std::string svg;       // a folder; empty: no pictures
    std::string csv;       // a file with a schedule, which then has the numbers of stages and micro-batches
    std::string write_csv; // a folder; empty: no files

    /// Nothing if only --help was asked for, and has been printed. Throws usage_error, with a sentence for the user.
    static std::optional<pipelines_flags> parse(int argc, char const* const* argv);
};
