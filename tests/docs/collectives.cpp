// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The code of the guide's section on collectives of numbers of one's own, as guide.cpp has that of the others.

#include <doctest/doctest.h>
#include <trireme/trireme.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
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

    TEST_CASE("a block from every rank to every other one") {
        std::vector<int> right(4);
        // [exchanged_blocks]
        threads::group group(4);
        group.run([&](threads::communicator& me) {
            std::vector<std::size_t> const counts{0, 1, 2, 3}; // for ranks 0 to 3
            std::vector<int> const mine(6, me.rank());         // their blocks, one behind the other
            auto const received = all_to_allv(me, mine, counts);
            auto const returned = all_to_allv(me, received); // every block goes back to its sender
            right[static_cast<std::size_t>(me.rank())] =
                received[2].size() == counts[static_cast<std::size_t>(me.rank())] && returned.numbers == mine;
        });
        // [/exchanged_blocks]
        CHECK(right == std::vector<int>(4, 1));
    }

    TEST_CASE("counts that the root alone knows") {
        std::vector<int> right(4);
        // [known_to_root]
        threads::group group(4);
        group.run([&](threads::communicator& me) {
            std::vector<float> table; // the others need not know how long it is
            if (me.rank() == 0) table = {1, 2, 3, 4, 5, 6, 7, 8};
            auto const whole = broadcastv(me, table);
            auto const share = scatterv(me, table); // two numbers each
            right[static_cast<std::size_t>(me.rank())] =
                whole.size() == 8 && share[1] == whole[2 * static_cast<std::size_t>(me.rank()) + 1];
        });
        // [/known_to_root]
        CHECK(right == std::vector<int>(4, 1));
    }

    TEST_CASE("operations that need the order of ranks") {
        // [in_rank_order]
        struct line { // x -> a x + b
            float a, b;
        };
        auto const then = [](line f, line g) { return line{g.a * f.a, g.a * f.b + g.b}; }; // not commutative
        threads::group group(3);
        group.run([&](threads::communicator& me) {
            auto const lines = all_gather(me, line{2, static_cast<float>(me.rank())});
            auto const all = std::accumulate(lines.begin() + 1, lines.end(), lines[0], then);
            if (all.a != 8 || all.b != 4) throw std::logic_error("the lines have another order");
        });
        // [/in_rank_order]
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
