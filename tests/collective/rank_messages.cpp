// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/collective/rank_messages.hpp>

#include <trireme/group/transport/threads/group.hpp>

#include <collective/ended_group.hpp>
#include <collective/rank_messages.hpp>
#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/messages.hpp>
#include <support/seed.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace rank_messages_test {
using namespace trireme;
using namespace std::chrono_literals;
using test_collectives::end_of_group;
using test_support::has;
using test_support::refusal;
using comm = threads::communicator;

TEST_SUITE("collective/rank_messages") {
    TEST_CASE("messages of any size arrive whole, from every rank to every other one") {
        watchdog const guard("rank messages");
        auto const seed = test_seed();
        for (int ranks = 1; ranks <= 8; ++ranks) {
            threads::group g(ranks, 100s);
            g.run([&](comm& c) {
                test_collectives::require_rank_messages(c, seed);
                test_collectives::require_messages_beside_a_sum(c);
            });
        }
    }

    TEST_CASE("a slot holds sixteen messages, or its bytes, before its sender has to wait") {
        watchdog const guard("slots");
        threads::group g(2, 20s);
        std::atomic<bool> sent{false}, waited_for{false};
        g.run([&](comm& c) {
            rank_messages messages(c);
            if (c.rank() == 0) {
                for (int k = 0; k < 16; ++k) messages.send(1, k);
                sent = true; // nothing has been received
                messages.send(1, 16);
                waited_for = true;
                messages.send(1, std::vector<double>(8000, 1.5)); // 64,000 bytes
            } else {
                while (!sent) std::this_thread::yield();
                std::this_thread::sleep_for(20ms);
                bool const too_soon = waited_for;
                for (int k = 0; k <= 16; ++k) {
                    int got = -1;
                    messages.receive(0, got);
                    if (got != k) throw std::logic_error("another number");
                }
                if (too_soon) throw std::logic_error("the seventeenth message found a place");
                auto const long_one = messages.receive<double>(0);
                if (long_one != std::vector<double>(8000, 1.5)) throw std::logic_error("another message");
            }
        });
        CHECK(waited_for);
    }

    TEST_CASE("another size, or another type, is refused with both, and the message is still there") {
        watchdog const guard("misfits");
        threads::group g(2, 20s);
        g.run([](comm& c) {
            rank_messages messages(c);
            if (c.rank() == 0) {
                messages.send(1, std::vector<float>(10, 2.0f));
                return;
            }
            std::vector<float> twelve(12), ten(10);
            std::vector<std::int32_t> integers(10);
            CHECK(refusal([&] { messages.receive(0, twelve); }) ==
                  "receive: rank 0 has sent 10 x f32 to rank 1, which receives 12 x f32: both ends of a message agree "
                  "in type and count");
            CHECK(has(refusal([&] { messages.receive(0, integers); }), "10 x f32 to rank 1, which receives 10 x i32"));
            CHECK(has(refusal([&] { (void)messages.receive<double>(0); }), "which receives 10 x f64"));
            float one = 0;
            CHECK(has(refusal([&] { messages.receive(0, one); }), "which receives 1 x f32"));
            std::vector<test_collectives::particle> structs(10);
            CHECK(has(refusal([&] { messages.receive(0, structs); }), "10 x bytes, 12 each"));
            messages.receive(0, ten);
            CHECK(ten == std::vector<float>(10, 2.0f));
        });
    }

    TEST_CASE("ranks that do not exist, one's own, and slots of two sizes are refused") {
        watchdog const guard("refused");
        threads::group g(3, 20s);
        g.run([](comm& c) {
            rank_messages messages(c);
            for (int const peer : {-1, 3, c.rank()}) {
                auto const text = "rank " + std::to_string(peer) + " is asked for by rank " + std::to_string(c.rank()) +
                                  " of 3: messages go between two different ranks";
                CHECK(refusal([&] { messages.send(peer, 1.0); }) == "send: " + text);
                CHECK(refusal([&] { (void)messages.receive<double>(peer); }) == "receive: " + text);
            }
        });
        CHECK(has(
            end_of_group<device_error>([](comm& c) { rank_messages messages(c, c.rank() == 0 ? 4096 : 1 << 20); }, 3),
            "all ranks give the same size"));
    }

    TEST_CASE("two ranks that both send too much first are told of one another") {
        watchdog const guard("both send");
        auto const text = end_of_group<deadline_error>(
            [](comm& c) {
                rank_messages messages(c);
                messages.send(1 - c.rank(), std::vector<float>(100000));
                (void)messages.receive<float>(1 - c.rank());
            },
            2, 300ms);
        CHECK(has(text, "device 0"));
        CHECK(has(text, "device 1"));
        CHECK(has(text, "in send (rank_messages, schedule step 16)"));
    }

    TEST_CASE("who receives what nobody sends names the rank that does not") {
        watchdog const guard("nobody sends");
        auto const text = end_of_group<deadline_error>(
            [](comm& c) {
                rank_messages messages(c);
                if (c.rank() == 1) (void)messages.receive<float>(0);
            },
            2, 300ms);
        CAPTURE(text);
        // it depends on when the other one returns
        bool const late = has(text, "device 0 did not arrive within the deadline") &&
                          has(text, "device 1 waited for device 0 in receive (rank_messages");
        bool const gone = has(text, "device 0 has returned, but device 1 waits for it");
        CHECK((late || gone));
    }

    TEST_CASE("what a rank throws ends the waits of the others") {
        watchdog const guard("thrown");
        auto const text = end_of_group<device_error>(
            [](comm& c) {
                rank_messages messages(c);
                if (c.rank() == 0) throw std::runtime_error("no more messages");
                (void)messages.receive<float>(c.rank() - 1);
            },
            3, 60s);
        CHECK(has(text, "no more messages"));
    }

    TEST_CASE("collectives and messages do not meet") {
        watchdog const guard("both");
        threads::group g(4, 20s);
        g.run([](comm& c) {
            rank_messages messages(c);
            for (int round = 0; round < 200; ++round) {
                messages.send((c.rank() + 1) % 4, round);
                auto const total = all_reduce<ring>(c, c.rank());
                int got = -1;
                messages.receive((c.rank() + 3) % 4, got);
                if (total != 6 || got != round) throw std::logic_error("another number");
            }
        });
    }
}

} // namespace rank_messages_test
