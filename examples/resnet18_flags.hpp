// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The command line of resnet18 as a plain struct.

#include <trireme/schedule/pipeline/choice.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

struct resnet18_flags {
    int epochs = 10;
    std::size_t batch = 256;
    std::size_t images = 60000;    // of the training set, the first ones
    int devices = 0;               // replicas; 0: as many as there are processors, at most 2, or 1 with --stages
    int stages = 1;                // devices of each
    std::size_t micro_batches = 0; // of a replica; 0: as the library has it
    std::string schedule = "one_f_one_b";
    std::shared_ptr<trireme::schedule_orders const> orders; // if they are in a file
    trireme::schedule_choice
        turns;                 // those, or the schedule of this name: all are compiled with the flags, nowhere else
    bool synchronised = false; // batch norm over the whole batch
    std::size_t reproducible = 0;
    float learning_rate = 0.1f;
    std::uint64_t seed = 1;
    double deadline = 120; // seconds that a device may wait for another
    std::string data;      // empty: where the library looks by itself
    std::string load;      // a file of weights to begin with
    std::string save;      // where the weights go after every epoch
    std::string log;       // empty: none
    std::string trace;     // empty: none

    /// Nothing if only --help was asked for, and has been printed. Throws usage_error, with a sentence for the user.
    static std::optional<resnet18_flags> parse(int argc, char const* const* argv);
};
