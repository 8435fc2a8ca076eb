// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <doctest/doctest.h>
#include <support/allocation_hook.hpp>

#include <trireme/parallel/plan.hpp>

// What a plan says that a trainer on the host takes.
namespace test_support {

/// Bytes of all devices' memory that begins on a cache line and no further: all but the counters of their group.
inline trireme::bytes_t arenas_of(trireme::training_plan const& plan) {
    trireme::bytes_t sum = 0;
    for (int rank = 0; rank < plan.devices(); ++rank) {
        auto const m = plan.map(plan.layout, plan.batch.samples, rank);
        sum += m.owned().total() - m.counters.total();
    }
    return sum;
}

/// A trainer on the host takes what is in its plan, to the byte: make(taken) makes it and hands it to `taken`.
inline constexpr auto as_planned = [](auto const& make) {
    make([before = allocation_hook::aligned_to_line.load()](auto const& t) {
        CHECK(allocation_hook::aligned_to_line - before == arenas_of(t.plan()));
    });
};

} // namespace test_support
