// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/collective/ring.hpp>

#include "structure.hpp"

#include <doctest/doctest.h>

namespace schedule_ring_test {
namespace {

using namespace trireme;
using namespace structure;
using events = std::vector<std::string>;

static_assert(reduction_strategy<ring>);
static_assert(proved_for<ring, 1, 16>);
static_assert(proved<ring, 20>); // within the default limits of all compilers; g++ proves 32

} // namespace

TEST_SUITE("schedule/ring") {
    TEST_CASE("one rank has nothing to do") {
        CHECK(ring::all_reduce(1).steps == 0);
        CHECK(ring::all_reduce(1).chunks == 1);
    }

    TEST_CASE("the trace of two and three ranks") {
        auto const two = ring::all_reduce(2);
        CHECK((trace(two, 0) == events{"reduce 0 from 1 after 0", "copy 1 from 1 after 1", "wait for 1 after 2"}));
        CHECK((trace(two, 1) == events{"reduce 1 from 0 after 0", "copy 0 from 0 after 1", "wait for 0 after 2"}));
        auto const three = ring::all_reduce(3);
        CHECK((trace(three, 0) == events{"reduce 1 from 2 after 0", "reduce 0 from 2 after 1", "copy 2 from 2 after 2",
                                         "copy 1 from 2 after 3", "wait for 1 after 4"}));
        CHECK((trace(three, 2) == events{"reduce 0 from 1 after 0", "reduce 2 from 1 after 1", "copy 1 from 1 after 2",
                                         "copy 0 from 1 after 3", "wait for 0 after 4"}));
    }

    TEST_CASE("a rank reads its predecessor only, and waits for its successor at the end") {
        for (int n = 2; n <= 64; ++n) {
            auto const s = ring::all_reduce(n);
            bool right = s.chunks == n && s.steps == 2 * n - 1;
            for (int r = 0; r < n; ++r)
                for (int i = 0; i < s.steps; ++i) {
                    auto const step = s.at(r, i);
                    bool const last = i == 2 * n - 2;
                    auto const kind = last ? step_kind::wait : i < n - 1 ? step_kind::reduce : step_kind::copy;
                    right = right && step.sources.count == 1 && step.kind == kind;
                    right = right && step.sources.at(0, n) == (last ? (r + 1) % n : (r + n - 1) % n);
                }
            CAPTURE(n);
            CHECK(right);
        }
    }

    TEST_CASE("2 (n - 1) messages and 2 (n - 1)/n of the buffer per rank") {
        for (int n = 2; n <= 64; ++n) {
            CAPTURE(n);
            auto const elements = static_cast<std::size_t>(n) * 16 * 3;
            auto const ranks = static_cast<std::uint64_t>(n);
            bool right = true;
            for (int r = 0; r < n; ++r) {
                auto const t = traffic_of(ring::all_reduce(n), r, elements, 4);
                right = right && t.messages == 2 * (ranks - 1) && t.bytes == 2 * (ranks - 1) * elements * 4 / ranks;
            }
            CHECK(right);
            auto const odd = traffic_of_all(ring::all_reduce(n), 4099, 4); // uneven chunks: the sum is the same
            CHECK(odd.bytes == 2 * (ranks - 1) * 4099 * 4);
        }
    }

    TEST_CASE("it is proved for 2 to 64 ranks") {
        for (int n = 2; n <= 64; ++n) {
            CAPTURE(n);
            CHECK(verify(collective::all_reduce, ring::all_reduce(n)).ok());
        }
    }
}

} // namespace schedule_ring_test
