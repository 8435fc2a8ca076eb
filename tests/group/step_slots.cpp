// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/group/transport/step_slots.hpp>
#include <trireme/group/transport/threads/communicator.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace group_step_slots_test {
using namespace trireme;

namespace {

/// A rank shows that it waits for `count` steps of another one in a lane.
void waits(threads::shared_state& state, int rank, int awaited, std::size_t lane, std::uint32_t count) {
    auto& slot = state.slot(rank);
    slot.waits_until = count;
    slot.waits_in = static_cast<int>(lane);
    slot.waits_for = awaited;
}

} // namespace

TEST_SUITE("group/step_slots") {
    TEST_CASE("the waits lead to a rank that waits for no other, or for one that is there by now") {
        threads::shared_state state(3, std::chrono::seconds(1), {});
        CHECK(culprit_of(state, 0) == 0);
        waits(state, 0, 1, 0, 5);
        waits(state, 1, 2, 1, 3);
        CHECK(culprit_of(state, 0) == 2);
        state.slot(2).lanes[1].steps.advance_to(3); // rank 1 has not woken up yet
        CHECK(culprit_of(state, 0) == 1);
        state.slot(1).lanes[0].steps.advance_to(4);
        CHECK(culprit_of(state, 0) == 1);
        state.slot(1).lanes[0].steps.advance_to(5);
        CHECK(culprit_of(state, 0) == 0);
    }
}

} // namespace group_step_slots_test
