// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/group/transport/step_counts.hpp>
#include <trireme/group/transport/threads/communicator.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <thread>

namespace group_step_counts_test {
using namespace trireme;
using namespace std::chrono_literals;

TEST_SUITE("group/step_counts") {
    TEST_CASE("a device that only asks has no deadline while it does not ask") {
        constexpr operation meeting = {"meeting", "test", 0};
        auto const state = std::make_shared<threads::shared_state>(2, 1200ms, levels{});
        threads::communicator asking(state, 0), asked(state, 1);
        asking.enter({.name = "meeting"});
        CHECK(!asking.has_completed(1, 1, meeting));
        std::this_thread::sleep_for(1500ms);
        CHECK(!asking.has_completed(1, 1, meeting));
        asked.enter({.name = "meeting"});
        asked.complete(0);
        CHECK(asking.has_completed(1, 1, meeting));
    }
}

} // namespace group_step_counts_test
