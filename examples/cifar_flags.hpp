// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The command line of cifar as a plain struct.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

struct cifar_flags {
    int epochs = 10;
    std::size_t batch = 128;
    int devices = 0; // 0: as many as there are processors, at most 2
    float learning_rate = 0.001f;
    std::uint64_t seed = 1;
    std::string data; // empty: the folder in TRIREME_CIFAR10

    /// Nothing if only --help was asked for, and has been printed. Throws usage_error, with a sentence for the user.
    static std::optional<cifar_flags> parse(int argc, char const* const* argv);
};
