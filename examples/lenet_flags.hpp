// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The command line of lenet as a plain struct. Parsing it is in a translation unit of its own, because CLI11 takes
// longer to compile than the whole training program.

#include <trireme/schedule/pipeline/choice.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

struct lenet_flags {
    int epochs = 10;
    std::size_t batch = 256;
    std::string device = "host";   // or gpu
    int devices = 0;               // replicas of the network; 0: first 1, then 2
    int stages = 1;                // devices of each
    std::size_t micro_batches = 0; // of a replica; 0: as the library has it
    std::string schedule = "one_f_one_b";
    std::shared_ptr<trireme::schedule_orders const> orders; // if they are in a file
    trireme::schedule_choice
        turns;                  // those, or the schedule of this name: all are compiled with the flags, nowhere else
    bool share_devices = false; // ranks may share a GPU
    std::string transport = "threads"; // or mpi
    std::string windows = "automatic"; // whether processes share memory: off, required
    int ranks_per_machine = 0;         // of processes; 0: as it is
    double deadline = 30;              // seconds that a wait may take
    std::string strategy = "direct";
    std::size_t reproducible = 0; // logical shards; 0: off
    float learning_rate = 0.9f;
    std::uint64_t seed = 1;
    std::string data;  // empty: where the library looks by itself
    std::string log;   // empty: none
    std::string trace; // empty: none

    /// Nothing if only --help was asked for, and has been printed. Throws usage_error, with a sentence for the user.
    static std::optional<lenet_flags> parse(int argc, char const* const* argv);
};
