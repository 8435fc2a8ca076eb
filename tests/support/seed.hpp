// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <random>

/// The seed of this run's random tests: TRIREME_TEST_SEED if that is set, else another one in every run. The laws that
/// are tested with it hold for every seed; a failure prints it, and it replays the failure.
inline std::uint64_t test_seed() {
    static std::uint64_t const seed = [] {
        auto const* const given = std::getenv("TRIREME_TEST_SEED");
        auto const value = given != nullptr ? std::strtoull(given, nullptr, 10) : std::uint64_t{std::random_device{}()};
        MESSAGE("TRIREME_TEST_SEED=" << value);
        return std::uint64_t{value};
    }();
    return seed;
}
