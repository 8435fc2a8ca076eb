// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <trireme/group/transport/threads/group.hpp>

#include <trireme/collective/in_flight.hpp>
#include <trireme/schedule/collective/direct.hpp>
#include <trireme/schedule/collective/double_binary_tree.hpp>
#include <trireme/schedule/collective/ring.hpp>

#include "no_threads.hpp"
#include "os_threads.hpp"
#include "watchdog.hpp"

#include <doctest/doctest.h>
#include <support/left_out.hpp>
#include <support/messages.hpp>
#include <support/sanitizers.hpp>
#include <support/seed.hpp>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

namespace group_threads_test {
namespace {

using namespace trireme;
using comm = threads::communicator;
using test_support::has;
using test_support::left_out;
using threads::group;
using seconds = std::chrono::duration<double>;
using std::chrono::milliseconds;

constexpr operation meeting = {"meeting", "test", 3};

static_assert(!std::is_copy_constructible_v<comm> && !std::is_move_constructible_v<comm>);

/// Waits until all ranks are here.
void meet(comm& c) {
    c.enter({.name = "meeting"});
    for (int r = 0; r < c.size(); ++r) c.wait_for(r, 0, meeting);
    c.complete(0);
    for (int r = 0; r < c.size(); ++r) c.wait_for(r, 1, meeting); // nobody enters the next before all have left this
    c.complete(1);
    c.leave(2);
}

/// A call of `run` throws this error, or none.
template<class Error, class F>
std::optional<Error> error_of(group& g, F f) {
    try {
        g.run(std::move(f));
    } catch (Error const& e) {
        return e;
    }
    return std::nullopt;
}

/// The address space that this process has taken.
std::size_t memory_in_use() {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// Closed until somebody opens it; owned by all who wait there, so that they may outlive the test.
class gate {
public:
    void open() const { *open_ = true; }
    void pass() const {
        while (!*open_) std::this_thread::sleep_for(milliseconds(1));
    }

private:
    std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

} // namespace

TEST_SUITE("group/threads: running") {
    TEST_CASE("a function runs once on every rank, and rank 0 is the caller") {
        watchdog const guard("run");
        for (int const ranks : {1, 2, 3, 8}) {
            group g(ranks);
            CHECK(g.size() == ranks);
            std::vector<int> runs(static_cast<std::size_t>(ranks), 0);
            auto const caller = std::this_thread::get_id();
            bool rank_0_is_caller = false;
            for (int job = 0; job < 50; ++job)
                g.run([&](comm& c) {
                    CHECK(c.size() == ranks);
                    ++runs[static_cast<std::size_t>(c.rank())];
                    if (c.rank() == 0) rank_0_is_caller = std::this_thread::get_id() == caller;
                });
            CHECK((runs == std::vector<int>(static_cast<std::size_t>(ranks), 50)));
            CHECK(rank_0_is_caller);
            CHECK(!g.stopped());
        }
    }

    TEST_CASE("what one rank wrote before a meeting the others read after it") {
        watchdog const guard("meeting");
        group g(4);
        std::vector<int> written(4, 0);
        std::atomic<int> wrong{0};
        g.run([&](comm& c) {
            for (int round = 1; round <= 100; ++round) {
                written[static_cast<std::size_t>(c.rank())] = round;
                meet(c);
                for (int const w : written) wrong += w != round;
                meet(c);
            }
        });
        CHECK(wrong == 0);
    }

    TEST_CASE("a job's captures live as long as a rank is in it, and no longer") {
        group g(3);
        auto const alive = std::make_shared<int>(1);
        g.run([alive](comm&) {});
        CHECK(alive.use_count() == 1);
    }

    TEST_CASE("a group needs at least one device") {
        CHECK_THROWS_WITH_AS(group(0), "a group needs at least one device, not 0", usage_error);
        CHECK_THROWS_AS(group(-1), usage_error);
        CHECK_THROWS_AS(group(-2147483647), usage_error);
    }

    TEST_CASE("a device for which the system has no thread is named, with the remedy; the others go home") {
        watchdog const guard("no threads");
        auto const before = os_threads();
        {
            no_threads const none;
            CHECK_NOTHROW(group(1).run([](comm&) {})); // which is the caller's own
            CHECK_THROWS_WITH_AS(
                group(3), doctest::Contains("device 1 of 3 needs a thread, and the system refuses one"), launch_error);
        }
        if (!left_out(sanitized, "a sanitizer needs address space of its own, which the test limits")) {
            rlimit unlimited;
            getrlimit(RLIMIT_AS, &unlimited);
            auto const some = rlimit{memory_in_use() + (std::size_t{100} << 20), unlimited.rlim_max};
            setrlimit(RLIMIT_AS, &some); // for the stacks of some, not for 250
            CHECK_THROWS_WITH_AS(group(250), doctest::Contains("of 250 needs a thread"), launch_error);
            setrlimit(RLIMIT_AS, &unlimited);
        }
        CHECK(os_threads_fall_to(before));
    }

    TEST_CASE("200 groups are made, used and destroyed; no thread stays behind") {
        watchdog const guard("200 groups");
        auto const before = os_threads();
        for (int i = 0; i < 200; ++i) {
            group g(1 + i % 5);
            if (i % 3 != 0) g.run([](comm& c) { meet(c); });
        }
        CHECK(os_threads_fall_to(before)); // fewer, if a device left behind by another test has ended
    }
}

TEST_SUITE("group/threads: arenas") {
    TEST_CASE("memory is zeroed, on cache lines, and peers see it where it is") {
        watchdog const guard("arenas");
        group g(3);
        std::atomic<int> wrong{0};
        g.run([&](comm& c) {
            std::vector<arena> mine;
            for (std::size_t const bytes : {std::size_t{4}, std::size_t{0}, std::size_t{100}, std::size_t{100000}}) {
                mine.push_back(c.allocate(bytes));
                wrong += mine.back().bytes != bytes;
                wrong += mine.back().id != static_cast<int>(mine.size()) - 1;
                wrong += reinterpret_cast<std::uintptr_t>(mine.back().data) % cache_line != 0;
                auto* const data = static_cast<unsigned char*>(mine.back().data);
                for (std::size_t i = 0; i < bytes; ++i) wrong += data[i] != 0;
            }
            *static_cast<int*>(mine[0].data) = c.rank() + 1;
            meet(c);
            for (int r = 0; r < c.size(); ++r) wrong += *c.peer<int>(mine[0], r) != r + 1;
            wrong += c.peer<int>(mine[0], c.rank()) != mine[0].data;
            meet(c);
        });
        CHECK(wrong == 0);
    }

    TEST_CASE("an arena too many is refused, and the error names the device") {
        static_assert(max_arenas == 12);
        group g(2);
        auto const e = error_of<device_error>(g, [](comm& c) {
            for (int i = 0; i < max_arenas; ++i) c.allocate(64);
            if (c.rank() == 1) c.allocate(64);
        });
        REQUIRE(e.has_value());
        CHECK(e->device() == 1);
        CHECK(has(e->what(), "at most 12 arenas"));
        CHECK_THROWS_AS(std::rethrow_exception(e->cause()), usage_error);
    }

    TEST_CASE("arenas that cannot be had are an error of their device") {
        group g(2);
        auto const e = error_of<device_error>(g, [](comm& c) {
            if (c.rank() == 1) throw std::bad_alloc(); // as allocate does; sanitizers do not let us ask for too much
            meet(c);
        });
        REQUIRE(e.has_value());
        CHECK(e->device() == 1);
        CHECK_THROWS_AS(std::rethrow_exception(e->cause()), std::bad_alloc);
    }
}

TEST_SUITE("group/threads: a device throws") {
    TEST_CASE("on any rank of any group the others are stopped and the error names the device") {
        watchdog const guard("throw");
        for (int const ranks : {1, 2, 3, 8})
            for (int culprit = 0; culprit < ranks; ++culprit) {
                CAPTURE(ranks);
                CAPTURE(culprit);
                group g(ranks);
                std::atomic<int> came_through{0};
                auto const e = error_of<device_error>(g, [&](comm& c) {
                    meet(c);
                    if (c.rank() == culprit) throw std::out_of_range("it broke");
                    meet(c);
                    ++came_through;
                });
                REQUIRE(e.has_value());
                CHECK(e->device() == culprit);
                CHECK(std::string(e->what()) == "device " + std::to_string(culprit) + ": it broke");
                CHECK_THROWS_WITH_AS(std::rethrow_exception(e->cause()), "it broke", std::out_of_range);
                CHECK(came_through == 0);
                CHECK(g.stopped());
            }
    }

    TEST_CASE("in the midst of an all-reduce") {
        watchdog const guard("throw in all_reduce");
        for (auto const make : {&ring::all_reduce, &direct::all_reduce, &double_binary_tree::all_reduce}) {
            group g(5);
            auto const s = make(5);
            auto const e = error_of<device_error>(g, [&](comm& c) {
                auto const a = c.allocate(400);
                for (int i = 0;; ++i) {
                    if (c.rank() == 3 && i == 7) throw std::runtime_error("mid-step");
                    run_schedule(c, collective::all_reduce, s, std::span<float>(static_cast<float*>(a.data), 100));
                }
            });
            REQUIRE(e.has_value());
            CHECK(e->device() == 3);
        }
    }

    TEST_CASE("the first exception wins") {
        watchdog const guard("first exception");
        group g(4);
        std::atomic<int> told{0};
        auto const e = error_of<device_error>(g, [&](comm& c) {
            if (c.rank() == 2) throw std::runtime_error("first");
            try {
                for (;;) {
                    c.check_stopped();
                    std::this_thread::yield();
                }
            } catch (group_stopped const&) { // without the reason, which is the caller's
                ++told;
                throw std::logic_error("second");
            }
        });
        REQUIRE(e.has_value());
        CHECK(std::string(e->what()) == "device 2: first");
        CHECK(told == 3);
    }

    TEST_CASE("what is thrown need not be an exception") {
        group g(2);
        auto const e = error_of<device_error>(g, [](comm& c) {
            if (c.rank() == 1) throw 42;
            meet(c);
        });
        REQUIRE(e.has_value());
        CHECK(has(e->what(), "device 1: "));
        CHECK(has(e->what(), "not derived from std::exception"));
        CHECK_THROWS_AS(std::rethrow_exception(e->cause()), int);
    }

    TEST_CASE("a group that was stopped refuses to run, and says what to do") {
        group g(3);
        CHECK_THROWS_AS(g.run([](comm& c) {
            if (c.rank() == 0) throw std::runtime_error("once");
        }),
                        device_error);
        for (int i = 0; i < 3; ++i) {
            bool ran = false;
            auto const e = error_of<usage_error>(g, [&](comm&) { ran = true; });
            REQUIRE(e.has_value());
            CHECK(has(e->what(), "make a new one"));
            CHECK(!ran);
        }
    }

    TEST_CASE("a run inside of a run is refused, on any rank, and the group is stopped; inside of another group's it "
              "is not") {
        watchdog const guard("nested");
        for (int const culprit : {0, 1}) {
            CAPTURE(culprit);
            group g(2);
            std::atomic<int> inner{0};
            auto const e = error_of<device_error>(g, [&](comm& c) {
                if (c.rank() == culprit) g.run([&](comm&) { ++inner; });
                meet(c);
            });
            REQUIRE(e.has_value());
            CHECK(e->device() == culprit);
            CHECK(has(e->what(), "inside of a function that this group runs"));
            CHECK_THROWS_AS(std::rethrow_exception(e->cause()), usage_error);
            CHECK(inner == 0);
        }
        group g(2);
        std::atomic<int> sum{0};
        for (int round = 0; round < 2; ++round) // one after the other is no run inside of a run
            g.run([&](comm&) {
                group mine(3);
                mine.run([&](comm& c) { sum += c.rank(); });
            });
        CHECK(sum == 12);
    }

    TEST_CASE("all devices throw at once: one of them is named, many times over") {
        watchdog const guard("all throw");
        for (int round = 0; round < 200; ++round) {
            group g(4);
            auto const e = error_of<device_error>(g, [](comm& c) {
                meet(c);
                throw std::runtime_error(std::to_string(c.rank()));
            });
            REQUIRE(e.has_value());
            auto const number = std::to_string(e->device());
            CHECK(std::string(e->what()) == "device " + number + ": " + number);
        }
    }
}

TEST_SUITE("group/threads: a device does not arrive") {
    TEST_CASE("the culprit is found through a chain of waits") {
        watchdog const guard("chain");
        gate const gate;
        group g(4, milliseconds(400));
        auto const e = error_of<deadline_error>(g, [gate](comm& c) {
            c.at_training_step(17);
            c.enter({.name = "meeting"});
            if (c.rank() == 3) gate.pass(); // 0 waits for 1, 1 for 2, 2 for 3
            c.wait_for((c.rank() + 1) % 4, 1, meeting);
            c.complete(0);
            c.leave(1);
        });
        gate.open();
        REQUIRE(e.has_value());
        CHECK(e->device() == 3);
        std::string const text = e->what();
        CAPTURE(text);
        CHECK(has(text, "device 3 did not arrive within the deadline of 0.4 s: device "));
        CHECK(has(text, " in meeting (test, schedule step 3) of training step 17; "));
        CHECK(has(text, "raise the option `deadline`"));
    }

    TEST_CASE("in a ring all-reduce, where everybody waits for a neighbour") {
        watchdog const guard("ring");
        for (int const stuck : {0, 1, 4}) {
            CAPTURE(stuck);
            gate const gate;
            group g(5, milliseconds(400));
            if (stuck == 0) // the caller itself: it comes back late, and finds the group stopped
                std::thread([gate] {
                    std::this_thread::sleep_for(milliseconds(900));
                    gate.open();
                }).detach();
            auto const s = ring::all_reduce(5);
            auto const e = error_of<deadline_error>(g, [gate, s, stuck](comm& c) {
                auto const a = c.allocate(400);
                run_schedule(c, collective::all_reduce, s, std::span<float>(static_cast<float*>(a.data), 100));
                if (c.rank() == stuck) gate.pass();
                run_schedule(c, collective::all_reduce, s, std::span<float>(static_cast<float*>(a.data), 100));
            });
            gate.open();
            REQUIRE(e.has_value());
            CHECK(e->device() == stuck);
            CHECK(has(e->what(), "all_reduce (ring, schedule step "));
        }
    }

    TEST_CASE("a device that does not come back from a job is named, too") {
        watchdog const guard("job");
        gate const gate;
        group g(3, milliseconds(100));
        auto const e = error_of<deadline_error>(g, [gate](comm& c) {
            if (c.rank() == 2) gate.pass();
        });
        gate.open();
        REQUIRE(e.has_value());
        CHECK(e->device() == 2);
        CHECK(has(e->what(), "device 2 did not finish"));
    }

    TEST_CASE("a device that does not come back because it waits for another is not to blame") {
        watchdog const guard("job, chain");
        gate const gate;
        group g(3, milliseconds(600));
        auto const e = error_of<deadline_error>(g, [gate](comm& c) {
            c.enter({.name = "meeting"});
            if (c.rank() == 1) { // its wait ends later than that of device 0, which has nothing to do
                std::this_thread::sleep_for(milliseconds(200));
                c.wait_for(2, 1, meeting);
            }
            if (c.rank() == 2) gate.pass();
            c.complete(0);
            c.leave(1);
        });
        gate.open();
        REQUIRE(e.has_value());
        CHECK(e->device() == 2);
    }

    TEST_CASE("a device that waits for a message of one that has returned is told so") {
        watchdog const guard("no message");
        group g(2, milliseconds(600));
        auto const sent = std::make_shared<comm::counter>();
        auto const e = error_of<deadline_error>(g, [sent](comm& c) {
            if (c.rank() == 0) return;
            std::this_thread::sleep_for(milliseconds(300)); // the wait of device 0 ends first
            c.wait_for(*sent, 1, 0, meeting);
        });
        REQUIRE(e.has_value());
        CHECK(e->device() == 0);
        CHECK(has(e->what(), "device 0 has returned, but device 1 waits for it"));
        CHECK(has(e->what(), "or for a message that it did not send"));
    }

    TEST_CASE("a stuck device is left behind, keeps what it uses alive, and ends by itself") {
        watchdog const guard("stuck");
        auto const before = os_threads();
        gate const gate;
        auto alive = std::make_shared<std::vector<int>>(1000, 1);
        std::weak_ptr<std::vector<int>> const observer = alive;
        auto const sum = std::make_shared<std::atomic<int>>(0);
        {
            group g(4, milliseconds(100));
            CHECK_THROWS_AS(g.run([gate, alive, sum](comm& c) {
                auto const a = c.allocate(4000);
                if (c.rank() < 2) return meet(c);
                gate.pass(); // two are stuck
                auto* const mine = static_cast<int*>(a.data);
                for (int i = 0; i < 1000; ++i) mine[i] = (*alive)[static_cast<std::size_t>(i)];
                for (int i = 0; i < 1000; ++i) *sum += c.peer<int>(a, c.rank())[i];
                meet(c); // must find the group stopped
                *sum = -1;
            }),
                            deadline_error);
        } // the group is gone
        alive.reset();
        CHECK(!observer.expired());
        gate.open();
        for (int i = 0; i < 10000 && (!observer.expired() || os_threads() > before); ++i)
            std::this_thread::sleep_for(milliseconds(1));
        CHECK(observer.expired());
        CHECK(*sum == 2000);
        CHECK(os_threads_fall_to(before)); // fewer, if a device left behind by another test has ended
    }

    TEST_CASE("a slow device within its deadline is waited for") {
        watchdog const guard("slow");
        group g(3, seconds(60));
        int rounds = 0;
        g.run([&](comm& c) {
            for (int i = 0; i < 10; ++i) {
                if (c.rank() == i % 3) std::this_thread::sleep_for(milliseconds(10));
                meet(c);
                if (c.rank() == 0) ++rounds;
            }
        });
        CHECK(rounds == 10);
    }

    TEST_CASE("deadlines that are as small as can be end at once, and hang nothing") {
        watchdog const guard("small deadline");
        for (double const limit : {0.0, 1e-9, -1.0}) {
            gate const gate;
            group g(3, seconds(limit));
            auto const e = error_of<deadline_error>(g, [gate](comm& c) {
                if (c.rank() == 1) gate.pass();
                meet(c);
            });
            gate.open();
            REQUIRE(e.has_value());
            CHECK(e->device() >= 0);
            CHECK(e->device() < 3);
        }
    }

    TEST_CASE("deadlines that are as large as can be are no deadlines") {
        watchdog const guard("large deadline");
        for (double const limit : {1e12, 1e300, std::numeric_limits<double>::infinity()}) {
            group g(3, seconds(limit));
            g.run([](comm& c) {
                if (c.rank() == 1) std::this_thread::sleep_for(milliseconds(20)); // so that the others sleep
                meet(c);
            });
            CHECK(!g.stopped());
        }
    }

    TEST_CASE("however many are stuck, the caller is back within one deadline and one grace") {
        watchdog const guard("many stuck");
        gate const gate;
        auto const start = deadline::clock::now();
        {
            group g(16, milliseconds(500));
            CHECK_THROWS_AS(g.run([gate](comm& c) {
                if (c.rank() == 0) throw std::runtime_error("the only one that is not stuck");
                gate.pass();
            }),
                            device_error);
        }
        CHECK(deadline::clock::now() - start < seconds(5)); // 0.5 s at best, 7.5 s if each of 15 gets its own grace
        gate.open();
    }
}

TEST_SUITE("group/threads: many devices") {
    TEST_CASE_TEMPLATE("64 devices on few processors finish many all-reduces", S, ring, direct, double_binary_tree) {
        watchdog const guard("64 devices");
        constexpr int ranks = 64, rounds = 5;
        group g(ranks, seconds(100));
        auto const s = S::all_reduce(ranks);
        std::atomic<int> wrong{0};
        g.run([&](comm& c) {
            auto const a = c.allocate(1000 * sizeof(float));
            auto* const mine = static_cast<float*>(a.data);
            for (int round = 0; round < rounds; ++round) {
                for (int i = 0; i < 1000; ++i) mine[i] = static_cast<float>(c.rank() + i + round);
                run_schedule(c, collective::all_reduce, s, std::span<float>(static_cast<float*>(a.data), 1000));
                for (int i = 0; i < 1000; ++i)
                    wrong += mine[i] != static_cast<float>(ranks * (ranks - 1) / 2 + ranks * (i + round));
            }
        });
        CHECK(wrong == 0);
    }
}

TEST_SUITE("nightly/group/threads") {
    TEST_CASE("abort from all devices at once, 10,000 times") {
        watchdog const guard("10,000 aborts", 1800);
        for (int round = 0; round < 10000; ++round) {
            group g(2 + round % 7);
            auto const e = error_of<device_error>(g, [](comm& c) {
                meet(c);
                throw std::runtime_error(std::to_string(c.rank()));
            });
            REQUIRE(e.has_value());
        }
    }

    TEST_CASE("1,000 groups are created and destroyed; no thread stays behind") {
        watchdog const guard("1,000 groups", 1800);
        auto const before = os_threads();
        for (int i = 0; i < 1000; ++i) {
            group g(1 + i % 16);
            g.run([](comm& c) { meet(c); });
        }
        CHECK(os_threads_fall_to(before)); // fewer, if a device left behind by another test has ended
    }
}

} // namespace group_threads_test
