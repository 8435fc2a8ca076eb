// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/device/host/progress.hpp>

#include <trireme/device/host/watched_deadline.hpp>

#include "watchdog.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace group_progress_test {
namespace {

using namespace trireme;
using outcome = progress::outcome;

constexpr patience asleep_at_once = {0, 0};
constexpr auto nobody = [] {};
constexpr std::chrono::seconds far(100);

static_assert(alignof(progress) >= 2 * cache_line && sizeof(progress) % (2 * cache_line) == 0);

} // namespace

TEST_SUITE("group/progress") {
    TEST_CASE("counts wrap around") {
        progress p;
        CHECK(p.reached(0));
        CHECK(!p.reached(1));
        p.advance_to(0xFFFFFFFE);
        CHECK(p.reached(0xFFFFFFFE));
        CHECK(!p.reached(0xFFFFFFFF));
        CHECK(!p.reached(3)); // five further, not four thousand million behind
        p.advance_to(3);
        CHECK(p.reached(0xFFFFFFFF));
        CHECK(p.reached(3));
        CHECK(!p.reached(4));
    }

    TEST_CASE("who waits for what has been reached does not sleep, even if the deadline has passed") {
        progress p;
        p.advance_to(7);
        std::atomic<bool> const stop{true};
        int slept = 0;
        constexpr std::chrono::seconds late(-1);
        CHECK(p.wait(7, stop, late, patience{}, [&] { ++slept; }) == outcome::reached);
        CHECK(slept == 0);
        CHECK(p.wait(7, stop, late, asleep_at_once, nobody) == outcome::reached);
    }

    TEST_CASE("a wait ends late after its deadline, and says whom it waits for") {
        watchdog const guard("late");
        progress p;
        std::atomic<bool> const stop{false};
        for (int const milliseconds : {0, 5, 150}) {
            int told = 0;
            std::chrono::milliseconds const span(milliseconds);
            auto const limit = deadline::in(span);
            CHECK(p.wait(1, stop, span, patience{10, 10}, [&] { ++told; }) == outcome::late);
            CHECK(limit.passed());
            CHECK(told >= 1);
        }
    }

    TEST_CASE("a wait whose last look finds a reason to stop ends with it, and not late") {
        progress p;
        std::atomic<bool> stop{false};
        CHECK(p.wait(1, stop, std::chrono::seconds(0), asleep_at_once, [&] { stop = true; }) == outcome::stopped);
    }

    TEST_CASE("time for which the program was stopped is no part of a deadline, of one wait or of several") {
        watchdog const guard("no time");
        progress first, second, third;
        std::atomic<bool> const stop{false};
        int looks = 0;
        // a look round that takes longer than the deadline is all that a wait sees of such a stop
        auto const stopped_before = [&](progress& p) {
            looks = 0;
            return [&] {
                if (++looks == 1) return std::this_thread::sleep_for(std::chrono::milliseconds(1500));
                p.advance_to(1);
            };
        };
        std::chrono::milliseconds const limit(1200);
        CHECK(first.wait(1, stop, limit, asleep_at_once, stopped_before(first)) == outcome::reached);
        CHECK(looks == 2);
        watched_deadline of_two(deadline::in(limit));
        CHECK(second.wait(1, stop, of_two, asleep_at_once, stopped_before(second)) == outcome::reached);
        CHECK(third.wait(1, stop, of_two, asleep_at_once, [&] { third.advance_to(1); }) == outcome::reached);
    }

    TEST_CASE("a wait ends late even if each of its looks round takes long") {
        watchdog const guard("slow looks");
        progress p;
        std::atomic<bool> const stop{false};
        auto const slowly = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1100)); };
        CHECK(p.wait(1, stop, std::chrono::milliseconds(150), asleep_at_once, slowly) == outcome::late);
    }

    TEST_CASE("a sleeper is stopped") {
        watchdog const guard("stopped");
        progress p;
        std::atomic<bool> stop{false};
        std::atomic<bool> asleep{false};
        std::atomic<int> ended{0};
        std::thread waiter(
            [&] { ended = p.wait(1, stop, far, asleep_at_once, [&] { asleep = true; }) == outcome::stopped ? 1 : 2; });
        while (!asleep) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        stop = true;
        p.wake();
        waiter.join();
        CHECK(ended == 1);
    }

    TEST_CASE("what was written before the advance is seen after the wait, by everyone, asleep or not") {
        watchdog const guard("visibility");
        for (auto const p : {patience{}, patience{20, 4}, asleep_at_once}) {
            constexpr std::uint32_t rounds = 300;
            progress done;
            std::array<progress, 3> read;
            std::vector<std::uint32_t> data(100, 0); // plain memory: the thread sanitizer watches
            std::atomic<bool> const stop{false};
            std::atomic<int> wrong{0};
            std::vector<std::thread> readers;
            for (auto& mine : read)
                readers.emplace_back([&] {
                    for (std::uint32_t i = 1; i <= rounds; ++i) {
                        if (done.wait(i, stop, far, p, nobody) != outcome::reached) ++wrong;
                        for (auto const x : data) wrong += x != i;
                        mine.advance_to(i);
                    }
                });
            for (std::uint32_t i = 1; i <= rounds; ++i) {
                for (auto& x : data) x = i;
                done.advance_to(i);
                for (auto& r : read)
                    if (r.wait(i, stop, far, p, nobody) != outcome::reached) ++wrong;
            }
            for (auto& t : readers) t.join();
            CHECK(wrong == 0);
        }
    }

    TEST_CASE("threads that outnumber the processors hardly spin") {
        auto const few = patience::for_threads(1), many = patience::for_threads(100000);
        CHECK(patience::processors() >= 1);
        CHECK(many.spins < few.spins);
        CHECK(many.yields < few.yields);
        CHECK(many.spins <= 100); // a spin is some 0.1 us: never more than 10 us against a peer
    }
}

} // namespace group_progress_test
