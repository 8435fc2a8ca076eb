// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/cost.hpp>

#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/double_binary_tree.hpp>
#include <trireme/schedule/collective/ring.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>

namespace schedule_cost_test {
namespace {

using namespace trireme;

// 100 floats in 4 chunks: lines of 16 floats, 7 of them, the last one short.
static_assert(chunk_range(100, 0, 4, 4).size() == 16 && chunk_range(100, 1, 4, 4).size() == 32);
static_assert(chunk_range(100, 2, 4, 4).size() == 32 && chunk_range(100, 3, 4, 4).size() == 20);
static_assert(traffic_of(ring::all_reduce(1), 0, 100, 4).messages == 0);
static_assert(traffic_of(ring::all_reduce(2), 0, 32, 4).messages == 2);
static_assert(traffic_of(ring::all_reduce(2), 0, 32, 4).bytes == 2 * 64);
static_assert(traffic_of(direct::all_reduce(4), 1, 64, 8).bytes == 6 * 16 * 8);

} // namespace

TEST_SUITE("schedule/cost") {
    TEST_CASE("chunks begin on cache lines and tile the buffer") {
        for (std::size_t const bytes : {1u, 2u, 4u, 8u})
            for (std::size_t const elements : {0u, 1u, 15u, 16u, 17u, 63u, 64u, 65u, 1000u, 4099u})
                for (int chunks = 1; chunks <= 64; ++chunks) {
                    std::size_t at = 0;
                    bool right = true;
                    for (int c = 0; c < chunks; ++c) {
                        auto const r = chunk_range(elements, c, chunks, bytes);
                        right = right && r.begin == at && (r.begin * bytes % cache_line == 0 || r.size() == 0);
                        at = r.end;
                    }
                    if (!right || at != elements) FAIL_CHECK(elements << " elements in " << chunks << " chunks");
                }
    }

    TEST_CASE("empty chunks are messages without bytes") {
        auto const t = traffic_of(ring::all_reduce(8), 3, 1, 4);
        CHECK(t.messages == 14);
        CHECK(t.bytes <= 2 * 4);
        CHECK(traffic_of(double_binary_tree::all_reduce(8), 3, 0, 4).bytes == 0);
    }

    TEST_CASE("buffers of more than 2^32 elements are priced without overflow") {
        auto const elements = std::size_t{3} << 33;
        CHECK(traffic_of(ring::all_reduce(4), 0, elements, 4).bytes == 6 * (elements / 4) * 4);
        CHECK(traffic_of(direct::all_reduce(4), 0, elements, 8).bytes == 6 * (elements / 4) * 8);
    }
}

} // namespace schedule_cost_test
