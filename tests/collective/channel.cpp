// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/collective/channel.hpp>

#include <trireme/group/transport/threads/group.hpp>

#include <collective/channels.hpp>
#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/messages.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace collective_channel_test {
using namespace trireme;
using namespace std::chrono_literals;
using test_support::has;
using comm = threads::communicator;

/// Channels of such ranks have carried 2^32 - 1 messages.
struct old_comm : comm {
    using comm::comm;
    std::vector<std::uint32_t> awaited; ///< numbers of messages
};
} // namespace collective_channel_test

template<>
class trireme::rank_channels<collective_channel_test::old_comm> {
public:
    rank_channels(collective_channel_test::old_comm& comm, std::span<channel_link const>, std::size_t) : comm_(comm) {}
    std::uint32_t send(std::size_t, void const*, std::size_t) noexcept { return ++sent_; }
    void wait_taken(std::size_t, std::uint32_t number, operation const&) { comm_.awaited.push_back(number); }
    template<class Find, class Take>
    void receive(std::size_t, operation const&, std::span<std::byte>, Find const&, Take const&) {}

private:
    collective_channel_test::old_comm& comm_;
    std::uint32_t sent_ = 0xFFFFFFFF;
};

namespace collective_channel_test {

TEST_SUITE("collective/channel") {
    TEST_CASE("messages of many links arrive in their order, from places that are used again") {
        watchdog const guard("messages");
        for (int const ranks : {2, 3, 4, 7}) {
            threads::group g(ranks);
            g.run([](comm& c) { test_collectives::require_messages(c, 200); });
        }
    }

    TEST_CASE_TEMPLATE("threads execute the step programs of a pipeline", S, gpipe, one_f_one_b) {
        watchdog const guard("programs");
        for (int const ranks : {1, 2, 3, 5})
            for (int const micro_batches : {1, 2, 9, 64}) {
                threads::group g(ranks);
                g.run([=](comm& c) { test_collectives::require_program(c, S{}, micro_batches); });
            }
        for (int const replicas : {2, 3}) {
            threads::group g(2 * replicas);
            g.run([=](comm& c) { test_collectives::require_program(c, S{}, 5, replicas); });
        }
    }

    TEST_CASE("a frame is waited for when the number of the message that left it has begun again") {
        threads::group g(2);
        g.run([](comm& c) {
            if (c.rank() == 1) return;
            old_comm old(c, 1, {0, 1});
            test_support::built_step const step(gpipe{}, {2, 1});
            stage_moves<old_comm> moves(old, step.program, 1);
            operation const what{"move", "test", 0};
            std::byte here[8] = {};
            std::vector<std::size_t> frames;
            for (auto const& t : step.program.list(0))
                for (int k = 0; t.kind == task_kind::move && k < t.transfers; ++k) {
                    if (!t.moves[k].sends) continue;
                    frames.push_back(t.moves[k].place);
                    moves.wait_until_free(false, frames.back(), what);
                    CHECK(old.awaited.empty()); // nothing has left it
                    moves.run(
                        sent_places(step.program), t, what, [&](auto const&) { return std::span(here); },
                        [&](auto const&...) -> std::byte const* { return here; });
                    moves.wait_until_free(false, frames.back(), what);
                }
            REQUIRE(frames.size() == 1);
            CHECK(old.awaited == std::vector<std::uint32_t>{0});
        });
    }

    TEST_CASE("a message has been taken when it has been read, not before") {
        watchdog const guard("taken");
        threads::group g(2);
        std::atomic<bool> reading{false}, looked{false};
        bool taken_too_soon = true, taken = false;
        g.run([&](comm& c) {
            std::vector<channel_link> const one{{0, 1}};
            rank_channels<comm> ways(c, one);
            if (c.rank() == 0) {
                auto const number = ways.send(0);
                while (!reading) std::this_thread::yield();
                taken_too_soon = ways.taken(0, number);
                looked = true;
                ways.wait_taken(0, number, {"move", "test", 0});
                taken = ways.taken(0, number);
            } else {
                ways.receive(0, {"move", "test", 0}, [&](int) {
                    reading = true;
                    while (!looked) std::this_thread::yield();
                    return 8u;
                });
            }
        });
        CHECK(!taken_too_soon);
        CHECK(taken);
    }

    TEST_CASE("a rank that is late is named, through a rank that waits for it in a channel") {
        watchdog const guard("late");
        threads::group g(3, 1s);
        std::atomic<bool> waiting{false};
        try {
            g.run([&](comm& c) {
                std::vector<channel_link> const chain{{2, 1}, {1, 0}};
                rank_channels<comm> ways(c, chain);
                if (c.rank() == 0) {
                    waiting = true;
                    ways.receive(1, {"move", "test", 5}, [](int) { return 0u; });
                } else if (c.rank() == 1) {
                    while (!waiting) std::this_thread::yield();
                    std::this_thread::sleep_for(50ms); // so that rank 0 is the one whose deadline passes
                    ways.receive(0, {"move", "test", 4}, [](int) { return 0u; });
                } else {
                    for (;; std::this_thread::sleep_for(1ms)) c.check_stopped();
                }
            });
            FAIL("nobody was late");
        } catch (deadline_error const& e) {
            CHECK(e.device() == 2);
            CHECK(has(e.what(), "device 2"));
            CHECK(has(e.what(), "in move (test, schedule step"));
        }
    }

    TEST_CASE("what a rank throws ends the waits of all others") {
        watchdog const guard("thrown");
        threads::group g(3, 60s);
        try {
            g.run([](comm& c) {
                std::vector<channel_link> const chain{{0, 1}, {1, 2}};
                rank_channels<comm> ways(c, chain);
                if (c.rank() == 0) throw std::runtime_error("no more messages");
                ways.receive(static_cast<std::size_t>(c.rank() - 1), {"move", "test", 0}, [](int) { return 0u; });
            });
            FAIL("nobody has thrown");
        } catch (device_error const& e) {
            CHECK(e.device() == 0);
            CHECK(has(e.what(), "no more messages"));
        }
    }

    TEST_CASE("links that do not exist, and ends that are another rank's, are refused") {
        watchdog const guard("refused");
        threads::group one(2);
        for (auto const& wrong : {channel_link{0, 2}, channel_link{-1, 1}, channel_link{1, 1}})
            CHECK_THROWS_AS(threads::group(2).run([&](comm& c) {
                std::vector<channel_link> const links{wrong};
                rank_channels<comm> const ways(c, links);
            }),
                            device_error);
        one.run([](comm& c) {
            std::vector<channel_link> const links{{0, 1}};
            rank_channels<comm> ways(c, links);
            if (c.rank() == 1) CHECK_THROWS_AS(ways.send(0), usage_error);
            if (c.rank() == 0)
                CHECK_THROWS_AS(ways.receive(0, {"move", "test", 0}, [](int) { return 0u; }), usage_error);
        });
    }
}

} // namespace collective_channel_test
