// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <support/forked.hpp>

#include <trireme/processes.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <type_traits>

// Trainings in forked ranks, and the results that such a training has in common with one in the test's own process.
namespace test_ranks {
using namespace trireme;

/// Each forked rank of a trainer's layout makes the trainer and calls `f(trainer)`; all ranks end well. `run` names
/// neither deadline nor processes.
template<class Trainer, class F>
void in_ranks(typename Trainer::options const& training, typename Trainer::run_options run, F const& f) {
    auto const layout = Trainer::layout_of(training, run);
    int const ranks = layout.devices();
    CAPTURE(layout.replicas);
    CAPTURE(layout.stages);
    auto const place = processes::meeting_place::create(ranks);
    run.deadline = std::chrono::seconds(60);
    forked_ranks all(ranks, [&](int rank) {
        run.processes = seat{place, rank};
        Trainer t(training, run);
        CHECK(t.rank() == rank);
        f(t);
    });
    all_end_well(all, std::chrono::seconds(100));
}

/// Each forked rank makes a trainer and calls `train(trainer)`: all results are `wanted`, and the ranks have moved
/// bytes.
template<class Trainer, class Result, class Train>
void come_to(Result const& wanted, typename Trainer::options const& training, typename Trainer::run_options const& run,
             Train const& train) {
    static_assert(std::is_trivially_copyable_v<Result>); // it comes from another process
    constexpr std::size_t most = 8;
    shared_value<std::array<Result, most>> found;
    shared_value<std::array<bool, most>> moved;
    in_ranks<Trainer>(training, run, [&](Trainer& t) {
        auto const rank = static_cast<std::size_t>(t.rank());
        (*found).at(rank) = train(t);
        (*moved).at(rank) = t.wire(t.rank()).bytes != 0;
    });
    auto const layout = Trainer::layout_of(training, run);
    CAPTURE(layout.replicas);
    CAPTURE(layout.stages);
    int const ranks = layout.devices();
    for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
        CAPTURE(r);
        CHECK((*found)[r] == wanted);
    }
    CHECK(std::ranges::count(*moved, true) >= ranks - 1); // a first stage without weights is sent nothing
}

} // namespace test_ranks
