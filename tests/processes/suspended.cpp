// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whole programs are stopped for longer than their deadlines, as by Ctrl-Z or a debugger, and go on.

#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/forked.hpp>
#include <support/waiting.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

namespace processes_suspended_test {
using namespace trireme;
using namespace std::chrono_literals;

TEST_SUITE("processes/suspended") {
    TEST_CASE("a program that is stopped as a whole for longer than its deadline goes on, be its ranks threads or "
              "processes") {
        watchdog const guard("stopped");
        constexpr auto limit = 5s; // a busy machine leaves ranks out for a while
        struct shown {
            std::atomic<int> waiting{0};
            std::atomic<bool> goes_on{false};
        };
        shared_value<shown> programs;
        auto const compute = [&] {
            ++programs->waiting;
            while (!programs->goes_on) std::this_thread::sleep_for(1ms);
        };
        auto const place = processes::meeting_place::create(2);
        forked_ranks all(3, [&](int number) {
            if (number == 2) { // devices 1 and 2 wait in a collective, device 0 for all to return
                threads::group g(4, limit);
                g.run([&](threads::communicator& c) {
                    constexpr operation meeting = {"meeting", "test", 0};
                    if (c.rank() == 0) return;
                    c.enter({.name = "meeting"});
                    if (c.rank() == 3) compute();
                    if (c.rank() != 3) c.wait_for(3, 1, meeting);
                    c.complete(0);
                    c.leave(1);
                });
            } else {
                processes::group g(place, number, limit);
                g.run([&](processes::communicator& c) {
                    if (number == 1) compute();
                    barrier<direct>(c);
                });
            }
        });
        REQUIRE(test_waiting::comes_true([&] { return programs->waiting == 2; }));
        std::this_thread::sleep_for(100ms); // the others begin to wait
        for (int p = 0; p < 3; ++p) all.send(p, SIGSTOP);
        std::this_thread::sleep_for(limit + 2s);
        for (int p = 0; p < 3; ++p) all.send(p, SIGCONT);
        std::this_thread::sleep_for(100ms); // a wait that takes the stop for its own time ends
        programs->goes_on = true;
        all_end_well(all, 60s);
    }
}

} // namespace processes_suspended_test
