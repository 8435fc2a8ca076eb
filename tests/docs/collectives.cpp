// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The code of the guide's section on collectives of numbers of one's own, as guide.cpp has that of the others.

#include <doctest/doctest.h>
#include <trireme/trireme.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace trireme;

TEST_SUITE("docs/collectives") {
    TEST_CASE("results of calls") {
        std::vector<int> right(4);
        // [results]
        threads::group group(4);
        group.run([&](threads::communicator& me) {
            double const total = all_reduce(me, 0.5 * me.rank());     // a number: its result is returned
            std::vector<int> const ranks = all_gather(me, me.rank()); // one from each
            int const seed = broadcast(me, me.rank() + 42);           // what rank 0 has
            std::vector<float> mine(100, 1);
            auto const sums = all_reduce(me, std::move(mine), op::max{}); // a buffer that is given away comes back
            right[static_cast<std::size_t>(me.rank())] = total == 3 && ranks[3] == 3 && seed == 42 && sums[99] == 1;
        });
        // [/results]
        CHECK(right == std::vector<int>(4, 1));
    }

    TEST_CASE("operations of one's own") {
        // [own_operation]
        struct found {
            float loss;
            int where;
        };
        op::commutative const least("least loss", [](found a, found b) {
            return a.loss < b.loss || (a.loss <= b.loss && a.where < b.where) ? a : b;
        });
        threads::group group(3);
        group.run([&](threads::communicator& me) {
            auto const best = all_reduce(me, found{1.0f / float(1 + me.rank()), me.rank()}, least);
            if (best.where != 2) throw std::logic_error("the last rank has the least");
        });
        // [/own_operation]
    }

    TEST_CASE("blocks that differ in size") {
        std::vector<int> right(4);
        // [uneven_blocks]
        threads::group group(4);
        group.run([&](threads::communicator& me) {
            std::vector<int> const mine(static_cast<std::size_t>(me.rank()), 7); // as many as the rank says
            auto const everyones = all_gatherv(me, mine);
            std::size_t longest = 0;
            for (auto const theirs : everyones) longest = std::max(longest, theirs.size()); // a span for each rank
            right[static_cast<std::size_t>(me.rank())] =
                longest == everyones[3].size() && everyones.numbers.size() == 6;
        });
        // [/uneven_blocks]
        CHECK(right == std::vector<int>(4, 1));
    }

    TEST_CASE("messages from rank to rank") {
        float got = 0;
        // [rank_messages]
        threads::group group(2);
        group.run([&](threads::communicator& me) {
            rank_messages messages(me); // all ranks of the group make one
            if (me.rank() == 0) {
                messages.send(1, std::vector<float>{1, 2, 3});
            } else {
                auto const numbers = messages.receive<float>(0); // as many as were sent
                got = numbers[2];
            }
        });
        // [/rank_messages]
        CHECK(got == 3);
    }
}
