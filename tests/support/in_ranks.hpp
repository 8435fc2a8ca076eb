// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <processes/forked.hpp>

#include <trireme/processes.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <type_traits>

// Trainings in forked ranks that must come to what a training in the test's own process has come to.
namespace test_ranks {
using namespace trireme;

/// Each of devices x stages forked ranks makes a trainer and calls `train(trainer)`: all results are `wanted`, and the
/// ranks have moved bytes.
template<class Trainer, class Result, class Train>
void come_to(Result const& wanted, typename Trainer::options const& training, int devices, int stages,
             Train const& train) {
    static_assert(std::is_trivially_copyable_v<Result>); // it comes from another process
    constexpr std::size_t most = 8;
    int const ranks = devices * stages;
    CAPTURE(devices);
    CAPTURE(stages);
    auto const place = processes::meeting_place::create(ranks);
    shared_value<std::array<Result, most>> found;
    shared_value<std::array<bool, most>> moved;
    forked_ranks all(ranks, [&](int rank) {
        Trainer t(training, {.devices = devices,
                             .stages = stages,
                             .deadline = std::chrono::seconds(60),
                             .processes = seat{place, rank}});
        (*found).at(static_cast<std::size_t>(rank)) = train(t);
        (*moved).at(static_cast<std::size_t>(rank)) = t.wire(rank).bytes != 0;
    });
    for (auto const& o : all.wait(std::chrono::seconds(100))) {
        CAPTURE(o.said);
        CHECK(o.code == 0);
    }
    for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
        CAPTURE(r);
        CHECK((*found)[r] == wanted);
    }
    CHECK(std::ranges::count(*moved, true) >= ranks - 1); // a first stage without weights is sent nothing
}

} // namespace test_ranks
