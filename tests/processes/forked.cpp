// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Forked ranks tell the test that has started them how they have ended.

#include <support/forked.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace processes_forked_test {
using namespace std::chrono_literals;

TEST_SUITE("processes/forked") {
    TEST_CASE("an assertion that fails in a forked rank is told to the test, with file, line and expression") {
        forked_ranks all(7, [](int rank) {
            REQUIRE(std::freopen("/dev/null", "w", stdout) != nullptr); // doctest's report of it is not this test's
            int const one = 1;
            if (rank == 0) CHECK(one == 1);
            if (rank == 1) CHECK(one == 2);
            if (rank == 2) REQUIRE(one == 3);
            if (rank == 3) FAIL_CHECK("in other words");
            if (rank == 4) {
                CHECK(one == 4);
                CHECK(one == 5); // the first one is told
                throw std::runtime_error("what follows from it");
            }
            if (rank == 5) WARN(one == 6);
            if (rank == 6) CHECK_THROWS_AS(throw std::runtime_error("thrown"), std::logic_error);
        });
        auto const& found = all.wait(60s);
        for (auto const& o : found) REQUIRE(o.ended);
        auto const failed = [&](std::size_t rank, std::string const& words) {
            CAPTURE(rank);
            CAPTURE(found[rank].said);
            CHECK(found[rank].code == forked_ranks::check_failed);
            CHECK(found[rank].said.find("forked.cpp:") != std::string::npos);
            CHECK(found[rank].said.find(words) != std::string::npos);
        };
        for (std::size_t const rank : {0u, 5u}) {
            CHECK(found[rank].code == 0);
            CHECK(found[rank].said.empty());
        }
        failed(1, "CHECK( one == 2 ) is not correct; values: 1 == 2");
        failed(2, "REQUIRE( one == 3 ) is not correct; values: 1 == 3");
        failed(3, ": in other words");
        failed(4, "CHECK( one == 4 )");
        failed(6, "std::logic_error");
    }

    TEST_CASE("what a forked rank throws is told to the test") {
        forked_ranks all(2, [](int rank) {
            if (rank == 0) throw std::runtime_error("its words");
            throw 1;
        });
        auto const& found = all.wait(60s);
        CHECK(found[0].code == 3);
        CHECK(found[0].said == "its words");
        CHECK(found[1].code == 9);
    }
}

} // namespace processes_forked_test
