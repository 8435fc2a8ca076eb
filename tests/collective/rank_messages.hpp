// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <collective/matrix.hpp>

#include <trireme/collective/all_reduce.hpp>
#include <trireme/collective/rank_messages.hpp>
#include <trireme/schedule/collective/direct.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

// Messages that ranks of any group send one another by name.
namespace test_collectives {

/// Numbers of a message, told from those of all others.
inline std::vector<std::uint32_t> contents(int from, int to, std::uint32_t number, std::size_t count) {
    std::vector<std::uint32_t> x(count);
    for (std::size_t i = 0; i < count; ++i)
        x[i] = static_cast<std::uint32_t>(from * 1000003 + to * 7919) + number * 31 + static_cast<std::uint32_t>(i);
    return x;
}

/// Two ranks send one another a message while one of them has a sum in flight, whose other ranks come after that.
template<class C>
void require_messages_beside_a_sum(C& c) {
    if (c.size() == 1) return;
    trireme::rank_messages messages(c, 4096);
    std::vector<double> x(1000, 1.0);
    if (c.rank() == 0) {
        auto sum = trireme::start_all_reduce<trireme::direct>(c, x);
        static_cast<void>(sum.advance());
        messages.send(1, messages.template receive<int>(1).at(0) + 1);
        sum.wait();
    } else {
        if (c.rank() == 1) {
            messages.send(0, 41);
            require(messages.template receive<int>(0).at(0) == 42, "an answer");
        }
        trireme::all_reduce<trireme::direct>(c, x);
    }
    require(x[999] == c.size(), "the sum");
}

/// Every rank sends to all others, of all sizes around those of a slot's parts, and receives in an order of its own.
template<class C>
void require_rank_messages(C& c, std::uint64_t seed) {
    trireme::rank_messages messages(c, 4096); // in parts of 256 bytes
    int const ranks = c.size(), me = c.rank();
    std::mt19937_64 random(seed + static_cast<std::uint64_t>(me));
    std::uint32_t number = 0;
    for (std::size_t const count : {0u, 1u, 47u, 48u, 49u, 111u, 112u, 113u, 48u + 15u * 64u}) {
        for (int to = 0; to < ranks; ++to)
            if (to != me) messages.send(to, contents(me, to, number, count));
        std::vector<int> order;
        for (int from = 0; from < ranks; ++from)
            if (from != me) order.push_back(from);
        std::shuffle(order.begin(), order.end(), random);
        for (int const from : order) {
            auto const wanted = contents(from, me, number, count);
            if (random() % 2 == 0) {
                require(messages.template receive<std::uint32_t>(from) == wanted, "another message");
            } else {
                std::vector<std::uint32_t> into(count);
                messages.receive(from, into);
                require(into == wanted, "another message, in a buffer");
            }
        }
        ++number;
    }
    // many small ones on their way at once, then one that is longer than its slot: to the next rank, from the one
    // before
    if (ranks == 1) return;
    int const next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    for (int k = 0; k < 16; ++k) messages.send(next, particle{me, {static_cast<std::uint8_t>(k)}});
    for (int k = 0; k < 16; ++k) {
        particle got{};
        messages.receive(before, got);
        require(got == particle{before, {static_cast<std::uint8_t>(k)}}, "a struct");
    }
    std::size_t const many = 100000;
    auto const moved = c.pulled();
    if (me % 2 == 0) messages.send(next, contents(me, next, 77, many));
    if (before % 2 == 0)
        require(messages.template receive<std::uint32_t>(before) == contents(before, me, 77, many), "a long message");
    require((c.pulled() - moved).bytes == (before % 2 == 0 ? 4 * many : 0), "other bytes have moved");
    if (me % 2 == 1) messages.send(next, std::string("from an odd rank"));
    if (before % 2 == 1) {
        auto const text = messages.template receive<char>(before);
        require(std::string(text.begin(), text.end()) == "from an odd rank", "a text");
    }
}

} // namespace test_collectives
