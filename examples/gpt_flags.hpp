// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The command line of gpt as a plain struct; parsing it is in gpt_flags.cpp.

#include <trireme/schedule/pipeline/choice.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

struct gpt_flags {
    std::string text;        // the file that is learnt
    std::uint64_t steps = 0; // since the training began; 0: until the minutes are over
    double minutes = 2;      // of this run; infinite where only a number of steps is given
    std::uint64_t decay_steps = 2000;
    std::size_t batch = 16;
    int devices = 1;               // replicas of the network
    int stages = 1;                // devices of each
    std::size_t micro_batches = 0; // of a replica; 0: as the library has it
    std::string schedule = "one_f_one_b";
    std::shared_ptr<trireme::schedule_orders const> orders; // if they are in a file
    trireme::schedule_choice turns;                         // those, or the schedule of this name
    std::string strategy = "direct";
    std::size_t reproducible = 0; // logical shards; 0: off
    float learning_rate = 1e-3f;
    std::uint64_t seed = 1;
    std::size_t characters = 400; // written at the end
    double deadline = 30;         // seconds that a wait may take
    std::string save;             // the folder of the checkpoints; empty: none
    std::uint64_t every = 0;      // steps from one to the next; 0: one when the run ends
    std::string resume;           // the folder of the checkpoint that the run begins with; empty: none
    std::string log;              // empty: none
    std::string trace;            // empty: none

    /// Nothing if only --help was asked for, and has been printed. Throws usage_error, with a sentence for the user.
    static std::optional<gpt_flags> parse(int argc, char const* const* argv);

    /// f(name, value) for each flag --NAME that decides the numbers of a training: checkpoints keep them.
    template<class F>
    void for_each_kept(F const& f) {
        f("batch", batch);
        f("learning-rate", learning_rate);
        f("decay-steps", decay_steps);
        f("seed", seed);
        f("reproducible", reproducible);
    }
    std::set<std::string> given; // of these, the ones on the command line
};
