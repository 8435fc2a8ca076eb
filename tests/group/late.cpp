// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/group/late.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace group_late_test {
using namespace trireme;

namespace {

/// The rank to blame by one that waits for `first`; each rank of the list waits for the one that stands in its place.
int blamed(int first, std::vector<int> const& awaited) {
    return end_of_waits(first, static_cast<int>(awaited.size()),
                        [&](int rank) { return awaited.at(static_cast<std::size_t>(rank)); });
}

} // namespace

TEST_SUITE("group/late") {
    TEST_CASE("the rank to blame is at the end of the waits") {
        CHECK(blamed(1, {1, -1, -1}) == 1);   // 1 waits for none
        CHECK(blamed(1, {1, 2, 3, -1}) == 3); // 1 for 2, 2 for 3
        CHECK(blamed(1, {1, 0}) == 1);        // a circle, which ends where it began
        CHECK(blamed(1, {1, 2, 1}) == 2);     // one that 0 is not in
        CHECK(blamed(1, {1, 7, -1}) == 1);    // no such rank: what peers show is not trusted
    }

    TEST_CASE("a deadline_error says who is late, by how much, and what to do") {
        using namespace std::chrono_literals;
        CHECK(late_text("rank 2", "arrive", 1500ms, "rank 0 waited") ==
              "rank 2 did not arrive within the deadline of 1.5 s: rank 0 waited; if it is only slow, raise the option "
              "`deadline`");
        CHECK(late_text("device 1", "finish", " after device 0 had") ==
              "device 1 did not finish within the deadline after device 0 had; if it is only slow, raise the option "
              "`deadline`");
    }

    TEST_CASE("a rank that gives up waits for a tenth of the deadline, at most 250 ms") {
        CHECK(short_withdrawal(std::chrono::seconds(1)) == std::chrono::milliseconds(100));
        CHECK(short_withdrawal(std::chrono::seconds(30)) == std::chrono::milliseconds(250));
    }
}

} // namespace group_late_test
