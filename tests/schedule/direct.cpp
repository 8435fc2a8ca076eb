// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/schedule/collective/direct.hpp>

#include "structure.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace schedule_direct_test {
namespace {

using namespace trireme;
using namespace structure;
using events = std::vector<std::string>;

static_assert(reduction_strategy<direct>);
static_assert(proved_for<direct, 1, 16>);
static_assert(proved<direct, 20>); // within the default limits of all compilers; g++ proves 32

static_assert(proved_for<direct, 1, 16, collective::reduce_scatter>);

/// The faults of every collective that direct makes, for these ranks.
template<int... Goal>
std::string faults_of_all(int ranks, std::integer_sequence<int, Goal...>) {
    std::string all;
    (
        [&] {
            constexpr auto goal = static_cast<collective>(Goal);
            if constexpr (makes<direct, goal>)
                for (int const root : {0, ranks - 1})
                    if (auto const v = verify(goal, schedule_of<direct, goal>(ranks, root), ranks); !v.ok())
                        all += std::string(name_of(goal)) + " " + describe(v) + "; ";
        }(),
        ...);
    return all;
}

} // namespace

TEST_SUITE("schedule/direct") {
    TEST_CASE("one rank has nothing to do") { CHECK(direct::all_reduce(1).steps == 0); }

    TEST_CASE("the trace of two and four ranks") {
        auto const two = direct::all_reduce(2);
        CHECK((trace(two, 0) == events{"reduce 0 from 1 after 0 to 1", "wait for 1 after 1"}));
        CHECK((trace(two, 1) == events{"reduce 1 from 0 after 0 to 0", "wait for 0 after 1"}));
        auto const four = direct::all_reduce(4);
        CHECK((trace(four, 1) == events{"reduce 1 from 2 3 0 after 0 to 2 3 0", "wait for 2 3 0 after 1"}));
    }

    TEST_CASE("two rounds of waiting, however many ranks") {
        for (int n = 2; n <= 64; ++n) {
            auto const s = direct::all_reduce(n);
            std::set<int> rounds;
            for (int r = 0; r < n; ++r)
                for (int i = 0; i < s.steps; ++i) rounds.insert(s.at(r, i).after);
            CAPTURE(n);
            CHECK((rounds == std::set<int>{0, 1}));
        }
    }

    TEST_CASE("a chunk is added once, by its rank, in the order r, r + 1, ..., r - 1") {
        for (int n = 2; n <= 64; ++n) {
            auto const s = direct::all_reduce(n);
            bool right = s.chunks == n && s.steps == 2;
            for (int r = 0; r < n; ++r) {
                auto const first = s.at(r, 0);
                right = right && first.kind == step_kind::reduce && first.chunk.first == r && first.chunk.count == 1 &&
                        first.sources.count == n - 1 && first.destinations.count == n - 1;
                for (int k = 0; k < n - 1; ++k)
                    right = right && first.sources.at(k, n) == (r + 1 + k) % n &&
                            first.destinations.at(k, n) == (r + 1 + k) % n;
                right = right && s.at(r, 1).kind == step_kind::wait;
            }
            CAPTURE(n);
            CHECK(right);
        }
    }

    TEST_CASE("n - 1 reads, n - 1 writes and 2 (n - 1)/n of the buffer per rank") {
        for (int n = 2; n <= 64; ++n) {
            CAPTURE(n);
            auto const elements = static_cast<std::size_t>(n) * 16 * 3;
            auto const ranks = static_cast<std::uint64_t>(n);
            bool right = true;
            for (int r = 0; r < n; ++r) {
                auto const t = traffic_of(direct::all_reduce(n), r, elements, 4);
                right = right && t.messages == 2 * (ranks - 1) && t.bytes == 2 * (ranks - 1) * elements * 4 / ranks;
            }
            CHECK(right);
            CHECK(traffic_of_all(direct::all_reduce(n), 4099, 8).bytes == 2 * (ranks - 1) * 4099 * 8);
        }
    }

    TEST_CASE("it is proved for 2 to 64 ranks") {
        for (int n = 2; n <= 64; ++n) {
            CAPTURE(n);
            CHECK(verify(collective::all_reduce, direct::all_reduce(n)).ok());
        }
    }
}

TEST_SUITE("schedule/direct: every collective") {
    TEST_CASE("what nobody proves while a program runs is proved here, for 1 to 64 ranks, and for some more") {
        for (int n = 1; n <= 200; n = n < 64 ? n + 1 : n + 34) {
            CAPTURE(n);
            CHECK(faults_of_all(n, std::make_integer_sequence<int, collectives>{}) == "");
        }
    }
}

TEST_SUITE("schedule/direct: reduce_scatter") {
    TEST_CASE("one rank has nothing to do") { CHECK(direct::reduce_scatter(1).steps == 0); }

    TEST_CASE("the trace of two and four ranks") {
        auto const two = direct::reduce_scatter(2);
        CHECK((trace(two, 0) == events{"reduce 0 from 1 after 0", "wait for 1 after 1"}));
        CHECK((trace(two, 1) == events{"reduce 1 from 0 after 0", "wait for 0 after 1"}));
        CHECK((trace(direct::reduce_scatter(4), 1) == events{"reduce 1 from 2 3 0 after 0", "wait for 2 3 0 after 1"}));
    }

    TEST_CASE("it is proved for 1 to 64 ranks, and is no all-reduce") {
        for (int n = 1; n <= 64; ++n) {
            CAPTURE(n);
            CHECK(verify(collective::reduce_scatter, direct::reduce_scatter(n)).ok());
            CHECK(verify(collective::reduce_scatter, direct::all_reduce(n)).ok()); // which does more than that
            CHECK(verify(collective::all_reduce, direct::reduce_scatter(n)).fault ==
                  (n == 1 ? schedule_fault::none : schedule_fault::missing));
        }
    }

    TEST_CASE("it adds as all_reduce does, so that the bits are the same") {
        for (int n = 2; n <= 64; ++n) {
            CAPTURE(n);
            bool same = true;
            for (int r = 0; r < n; ++r)
                same = same && event(direct::all_reduce(n), r, 0).find(event(direct::reduce_scatter(n), r, 0)) == 0;
            CHECK(same);
        }
    }

    TEST_CASE("half the traffic of all_reduce") {
        for (int n = 2; n <= 64; ++n) {
            CAPTURE(n);
            auto const ranks = static_cast<std::uint64_t>(n);
            auto const all = traffic_of_all(direct::reduce_scatter(n), 4099, 8);
            CHECK(all.bytes == (ranks - 1) * 4099 * 8);
            CHECK(all.messages == ranks * (ranks - 1));
        }
    }
}

} // namespace schedule_direct_test
