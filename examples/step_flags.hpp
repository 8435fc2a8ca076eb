// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <trireme/schedule/pipeline/choice.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

/// The command line of `step`. Parsing it is in a translation unit of its own, because CLI11 takes longer to compile
/// than the program.
struct step_flags {
    int devices = 1;               // replicas of the network
    int stages = 2;                // devices of each
    std::size_t micro_batches = 8; // of each
    std::size_t batch = 512;
    std::string schedule = "one_f_one_b";
    std::shared_ptr<trireme::schedule_orders const> orders; // if they are in a file
    trireme::schedule_choice
        turns;         // those, or the schedule of this name: all are compiled with the flags, nowhere else
    std::string data;  // empty: where the library looks by itself
    std::string svg;   // empty: none
    std::string trace; // empty: none

    /// Nothing if only --help was asked for, and has been printed. Throws usage_error, with a sentence for the user.
    static std::optional<step_flags> parse(int argc, char const* const* argv);
};
