// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranks that are killed, stopped, late, or do something else: real processes and real signals.

#include <trireme/processes.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/forked.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>
#include <support/seed.hpp>
#include <support/waiting.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace processes_failures_test {
namespace {

using namespace trireme;
using namespace test_networks;
using processes::meeting_place;
using comm = processes::communicator;
using namespace test_waiting;
using test_support::has;
using namespace std::chrono_literals;

/// The fault policy follows this plan: set before the fork, the same in all ranks.
struct planned {
    fault_point point = fault_point::forward;
    int rank = -1;
    std::uint64_t step = 0;
    int signal = 0;                     ///< which the rank sends itself
    std::chrono::milliseconds sleep{0}; ///< on every rank and step, at random up to so long, if `rank` is -1
} plan;

/// The fault policy stopped a rank at this time, on the clock of all processes.
std::int64_t* stopped_at = nullptr;

struct planned_faults {
    static void at(fault_point p, int rank, std::uint64_t step) {
        if (plan.rank < 0 && plan.sleep != 0ms && p == plan.point) {
            static std::mt19937_64 random(test_seed() + static_cast<std::uint64_t>(rank));
            std::this_thread::sleep_for(plan.sleep * static_cast<double>(random() % 100) / 100);
        }
        if (p != plan.point || rank != plan.rank || step != plan.step) return;
        if (stopped_at != nullptr) *stopped_at = shared_clock();
        if (plan.signal != 0) raise(plan.signal);
        std::this_thread::sleep_for(plan.sleep);
    }
};

double seconds_between(std::int64_t begin, std::int64_t end) { return static_cast<double>(end - begin) * 1e-9; }

/// An error that one deadline explains: the wait itself, and less than a quarter of it to end.
bool in_one_deadline(double seconds, std::chrono::duration<double> deadline) {
    return seconds <= 1.25 * deadline.count();
}

using faulty = any_layout<softmax_regression, sgd, transport<shared_windows>, with_faults<planned_faults>>;

/// A rank of the last `train` came to the fault.
bool fault_was_reached = false;

/// The state of a group in which others do something before a rank looks round for the one that it waits for.
struct looking_state : processes::state {
    using processes::state::state;
    using counter = shared_progress;
    std::function<void()> before_a_look;

    template<class... Come>
    void look_around(int rank, Come const&... come) noexcept {
        if (auto const act = std::exchange(before_a_look, nullptr)) act();
        processes::state::look_around(rank, come...);
    }
};

/// Trains some steps on forked ranks; each says its loss, bit for bit, or what it threw.
std::vector<rank_ending> train(int ranks, std::chrono::duration<double> deadline, std::chrono::duration<double> limit,
                               int except = -1, std::function<void(forked_ranks&)> const& meanwhile = {}) {
    auto const place = meeting_place::create(ranks);
    auto const images = made_up(64);
    test_seed(); // chosen here, for all
    shared_value<std::array<forked_ranks::text, forked_ranks::most>> losses;
    auto const train_rank = [&](int rank) {
        faulty t({.learning_rate = 0.1f, .batch = 64, .seed = 3, .logical_shards = 8},
                 {.devices = ranks, .deadline = deadline, .processes = seat{place, rank}});
        double loss = 0;
        for (int i = 0; i < 6; ++i) loss = t.step(images).loss;
        char text[40];
        std::snprintf(text, sizeof text, "%a", loss);
        forked_ranks::say((*losses)[static_cast<std::size_t>(rank)], text);
    };
    struct times {
        std::int64_t stopped = 0;
        std::array<std::int64_t, forked_ranks::most> ended{};
    };
    shared_value<times> at;
    stopped_at = &at->stopped;
    forked_ranks all(ranks, [&](int rank) {
        try {
            train_rank(rank);
        } catch (...) {
            at->ended[static_cast<std::size_t>(rank)] = shared_clock();
            throw;
        }
    });
    stopped_at = nullptr;
    if (meanwhile) meanwhile(all);
    auto result = all.wait(limit, except);
    fault_was_reached = at->stopped != 0;
    for (std::size_t r = 0; r < result.size(); ++r) {
        if (result[r].code == 0) result[r].said = (*losses)[r].data();
        result[r].seconds = seconds_between(at->stopped, at->ended[r]); // from the fault to the error
    }
    return result;
}

std::string undisturbed_loss() {
    plan = {};
    auto const alone = train(1, 30s, 60s)[0];
    CAPTURE(alone.said);
    REQUIRE(alone.code == 0); // else its words are an error's
    return alone.said;
}

} // namespace

TEST_SUITE("processes/failures") {
    TEST_CASE("a rank that is killed, wherever it is, is named by all others long before the deadline; a restart gives "
              "the bits of a run without it") {
        watchdog const guard("killed");
        auto const want = undisturbed_loss();
        REQUIRE(!want.empty());
        for (auto const point : {fault_point::forward, fault_point::backward, fault_point::reduce, fault_point::update})
            for (int const victim : {0, 2}) {
                CAPTURE(static_cast<int>(point));
                CAPTURE(victim);
                plan = {point, victim, 4, SIGKILL};
                auto const found = train(4, 20s, 10s);
                for (int r = 0; r < 4; ++r) {
                    auto const& o = found[static_cast<std::size_t>(r)];
                    CAPTURE(o.said);
                    CHECK(o.ended);
                    if (r == victim) {
                        CHECK(o.signal == SIGKILL);
                        continue;
                    }
                    CHECK(o.code == 3);
                    CHECK(has(o.said, "rank " + std::to_string(victim) + " (process "));
                    CHECK(has(o.said, "died"));
                    CHECK(has(o.said, "training step 4"));
                    CHECK(o.seconds < 10); // not the deadline's 20
                }
            }
        plan = {};
        for (auto const& o : train(4, 20s, 60s)) {
            CHECK(o.code == 0);
            CHECK(o.said == want);
        }
    }

    TEST_CASE("a rank that dies before its first collective is named as well") {
        watchdog const guard("early death");
        plan = {fault_point::forward, 1, 1, SIGKILL};
        int named = 0;
        for (auto const& o : train(3, 20s, 10s)) named += has(o.said, "rank 1 (process ");
        CHECK(named == 2);
        // and one that dies after it has joined, without any collective
        auto const place = meeting_place::create(2);
        forked_ranks all(2, [&](int rank) {
            processes::group g(place, rank, 20s);
            if (rank == 1) raise(SIGKILL);
            g.run([](comm& c) { barrier<direct>(c); });
        });
        auto const& o = all.wait(10s);
        CHECK(has(o[0].said, "before its first collective"));
    }

    TEST_CASE("a rank that is stopped is named by the deadline, with its silence; when it goes on, it ends, too") {
        watchdog const guard("stopped");
        plan = {fault_point::backward, 1, 3, SIGSTOP};
        auto const limit = 2s;
        std::vector<rank_ending> before;
        auto const found = train(3, limit, 10s, -1, [&](forked_ranks& all) {
            before = all.wait(10s, 1);
            all.send(1, SIGCONT);
        });
        for (int const r : {0, 2}) {
            auto const& o = before[static_cast<std::size_t>(r)];
            CAPTURE(o.said);
            CHECK(o.ended);
            CHECK(o.code == 3);
            CHECK(has(o.said, "rank 1 did not arrive within the deadline of 2 s"));
            CHECK(has(o.said, "no sign of life"));
            CHECK(in_one_deadline(found[static_cast<std::size_t>(r)].seconds, limit));
        }
        CHECK(!before[1].ended);
        CHECK(found[1].ended);
        CHECK(found[1].code == 3);
        CHECK(has(found[1].said, "rank 1 did not arrive"));
    }

    TEST_CASE(
        "a rank that is stopped inside of a collective costs the others one deadline; they go on without it, and it "
        "reaches nobody when it wakes") {
        watchdog const guard("stopped inside");
        auto const limit = 3s;
        auto const first = meeting_place::create(3), second = meeting_place::create(2);
        struct shared {
            std::int64_t stopped = 0;
            std::atomic<std::int64_t> ended[3]{};
        };
        shared_value<shared> at;
        forked_ranks all(3, [&](int rank) {
            std::string said;
            try {
                processes::group g(first, rank, limit);
                g.run([&](comm& c) {
                    std::vector<float> x(1000, 1.0f);
                    all_reduce<ring>(c, x);
                    run_schedule<float>(c, collective::all_reduce, direct::all_reduce(3), std::span(x),
                                        [&](reduction_view<float> const& v) -> bytes_t {
                                            if (rank == 1) {
                                                at->stopped = shared_clock();
                                                raise(SIGSTOP);
                                            }
                                            std::fill_n(v.out, v.elements, -1.0f);
                                            return 0;
                                        });
                });
            } catch (deadline_error const& e) {
                said = e.what();
            }
            at->ended[rank] = shared_clock();
            if (rank != 1) {
                processes::group g(second, rank / 2, 20s);
                g.run([](comm& c) {
                    for (int round = 0; round < 100; ++round) { // as rank 1 wakes
                        std::vector<float> x(1000, 1.0f);
                        all_reduce<direct>(c, x);
                        for (auto const v : x)
                            if (v != 2) throw std::logic_error("a wrong sum");
                        std::this_thread::sleep_for(2ms);
                    }
                });
            }
            throw std::runtime_error(said);
        });
        for (int i = 0; i < 10000 && (at->ended[0] == 0 || at->ended[2] == 0); ++i) std::this_thread::sleep_for(1ms);
        CHECK(at->ended[1] == 0);
        all.send(1, SIGCONT);
        auto const& found = all.wait(20s);
        for (int r = 0; r < 3; ++r) {
            auto const& o = found[static_cast<std::size_t>(r)];
            CAPTURE(r);
            CAPTURE(o.said);
            CHECK(has(o.said, "rank 1 did not arrive within the deadline of 3 s"));
            CHECK(has(o.said, "in its collective number 2, all_reduce<direct>"));
            if (r != 1) CHECK(in_one_deadline(seconds_between(at->stopped, at->ended[r]), limit));
        }
    }

    TEST_CASE("a rank that dies as the group comes to be, or never comes, costs one deadline at the most") {
        watchdog const guard("set-up");
        auto const limit = 2s;
        auto const absent = meeting_place::create(2), dying = meeting_place::create(3);
        shared_value<double> waited;
        forked_ranks all(5, [&](int rank) {
            if (rank == 1 || rank == 4) _exit(7); // before it joins
            if (rank == 0) {
                auto const begin = shared_clock();
                try {
                    processes::group(absent, 0, limit);
                } catch (...) {
                    *waited = seconds_between(begin, shared_clock());
                    throw;
                }
            }
            // the other group would wait for rank 2, which never comes: rank 1 joins and is killed meanwhile
            processes::group(dying, rank - 2, 60s);
        });
        CHECK(comes_true([&] { return dying.table().slot(1).present == processes::presence::here; }));
        all.send(3, SIGKILL);
        auto const& found = all.wait(30s);
        CHECK(has(found[0].said, "absent: 1"));
        CHECK(*waited < 2 * std::chrono::duration<double>(limit).count()); // not a second deadline
        CAPTURE(found[2].said);
        CHECK(has(found[2].said, "rank 1 (process "));
        CHECK(has(found[2].said, "died"));
        CHECK(has(found[2].said, "before its first collective"));
    }

    TEST_CASE(
        "a run inside of a run, and an exception that is none of the standard's, are errors of their rank on all") {
        watchdog const guard("nested");
        for (bool const nested : {true, false}) {
            auto const place = meeting_place::create(2);
            forked_ranks all(2, [&](int rank) {
                processes::group g(place, rank, 20s);
                g.run([&](comm& c) {
                    if (rank == 1 && !nested) throw 42;
                    if (rank == 1) g.run([](comm& inner) { barrier<direct>(inner); });
                    barrier<direct>(c);
                });
            });
            for (auto const& o : all.wait(10s)) {
                CAPTURE(o.said);
                CHECK(o.code == 3);
                CHECK(has(o.said, nested ? "device 1: the run of a group was called inside of a function"
                                         : "device 1: an exception that is not derived from std::exception"));
            }
        }
    }

    TEST_CASE("a rank that only computes for long is not called dead, and is said to be where it is") {
        watchdog const guard("late", 300);
        std::vector<rank_ending> found;
        auto const last = with_time_enough(700ms, 1, [&](std::chrono::milliseconds deadline) {
            plan = {fault_point::forward, 1, 2, 0, 3 * deadline};
            found = train(2, deadline, 10s + 5 * deadline);
            return stall_outcome{fault_was_reached, has(found[0].said, "rank 1 did not arrive") ? 1 : -1};
        });
        CAPTURE(found[0].said);
        CHECK(last.stalled);
        CHECK(last.device == 1);
        CHECK(has(found[0].said, "rank 1 is in training step 2"));
        CHECK(!has(found[0].said, "no sign of life"));
        CHECK(found[1].code == 3); // it finds the group stopped
    }

    TEST_CASE("stragglers below the deadline cost time, and nothing else") {
        watchdog const guard("stragglers");
        auto const want = undisturbed_loss();
        for (auto const p : {fault_point::forward, fault_point::reduce}) {
            plan = {p, -1, 0, 0, 20ms};
            for (auto const& o : train(4, 20s, 60s)) {
                CHECK(o.code == 0);
                CHECK(o.said == want);
            }
        }
    }

    TEST_CASE("ranks that call different things all learn what the two were") {
        watchdog const guard("mismatch");
        auto const all_say = [](int ranks, std::vector<std::string> const& parts, std::function<void(comm&)> const& f) {
            auto const place = meeting_place::create(ranks);
            forked_ranks all(ranks, [&](int rank) {
                processes::group g(place, rank, 20s);
                g.run(f);
            });
            for (auto const& o : all.wait(10s)) {
                CAPTURE(o.said);
                CHECK(o.code == 3);
                for (auto const& part : parts) CHECK(has(o.said, part));
            }
        };
        all_say(2, {"all_reduce<ring>(10 x f32", "all_reduce<ring>(11 x f32"}, [](comm& c) {
            std::vector<float> x(c.rank() == 0 ? 10 : 11);
            all_reduce<ring>(c, x);
        });
        all_say(3, {"broadcast<direct>", "root 0", "root 1"}, [](comm& c) {
            std::vector<float> x(10);
            broadcast<direct>(c, x, c.rank() == 2 ? 1 : 0);
            barrier<direct>(c); // a rank that has what it needs learns of it in the next call
        });
        all_say(3, {"different collectives"}, [](comm& c) {
            std::vector<float> x(10);
            if (c.rank() == 1)
                all_reduce<direct>(c, x, op::max{});
            else
                all_reduce<direct>(c, x);
        });
    }

    TEST_CASE("a rank that has finished is not waited for") {
        watchdog const guard("finished");
        auto const place = meeting_place::create(2);
        forked_ranks all(2, [&](int rank) {
            processes::group g(place, rank, 20s);
            g.run([](comm& c) { barrier<direct>(c); });
            if (rank == 0) g.run([](comm& c) { barrier<direct>(c); });
        });
        auto const& o = all.wait(10s);
        CHECK(o[1].code == 0);
        CHECK(has(o[0].said, "rank 1"));
        CHECK(has(o[0].said, "has left the group"));
    }

    TEST_CASE("a rank that leaves after its last message, while another looks round for it, is no rank lost") {
        using processes::presence;
        for (auto const gone : {presence::left, presence::leaving}) { // leaving: with an exception
            auto const place = meeting_place::create(2);
            auto& other = place.table().slot(1);
            for (int r = 0; r < 2; ++r) {
                place.table().slot(r).process = getpid();
                place.table().slot(r).present = presence::here;
            }
            auto const s = std::make_shared<looking_state>(place, 0, 20s, levels{});
            step_counting<looking_state> me(s, 0);
            looking_state::counter sent;
            auto const wait = [&](std::uint32_t count) { me.wait_for(sent, count, 1, {"receive", "test", 0}); };
            s->before_a_look = [&] { // rank 0 has seen that nothing is there yet
                sent.advance_to(1);
                other.present = gone;
            };
            wait(1);
            CHECK(!s->stopped());
            // and not if it leaves while rank 0 asks for the count
            auto const asks = [&](bool come) {
                other.present = presence::here;
                place.table().slot(0).waits_for = 1;
                s->processes::state::look_around(0, [&] {
                    other.present = gone;
                    return come;
                });
                return s->stopped().load();
            };
            for (bool const come : {true, false}) CHECK(!asks(come));
            other.present = gone;
            auto const words = gone == presence::left ? "rank 1 (process " : "device 1: an exception outside of its";
            CHECK_THROWS_WITH(wait(2), doctest::Contains(words));
            if (gone == presence::left) CHECK_THROWS_AS(wait(2), peer_lost_error);
        }
    }

    TEST_CASE("an exception on a rank, in a collective or out of the group, reaches all") {
        watchdog const guard("exceptions");
        enum class thrown { inside, outside, late }; // late: as the deadline of the others comes near
        for (auto const how : {thrown::inside, thrown::outside, thrown::late}) {
            bool const outside = how != thrown::inside;
            auto const place = meeting_place::create(3);
            forked_ranks all(3, [&](int rank) {
                processes::group g(place, rank, how == thrown::late ? 3s : 20s);
                g.run([&](comm& c) {
                    std::vector<float> x(10);
                    all_reduce<ring>(c, x);
                    if (rank == 1 && !outside) throw std::runtime_error("the oar is broken");
                    if (!(rank == 1 && outside)) all_reduce<ring>(c, x);
                });
                if (how == thrown::late) std::this_thread::sleep_for(2400ms);
                throw std::logic_error("the hull is broken");
            });
            auto const& o = all.wait(10s);
            for (int const r : {0, 2}) {
                CAPTURE(o[static_cast<std::size_t>(r)].said);
                CHECK(o[static_cast<std::size_t>(r)].code == 3);
                if (outside)
                    CHECK(has(o[static_cast<std::size_t>(r)].said,
                              "device 1: an exception outside of its group took it away"));
                else
                    CHECK(o[static_cast<std::size_t>(r)].said == "device 1: the oar is broken");
            }
            CHECK(has(o[1].said, outside ? "the hull is broken" : "the oar is broken"));
        }
    }

    TEST_CASE("a rank that dies is missed by those that an exception takes out of the group") {
        watchdog const guard("death beside an exception");
        auto const place = meeting_place::create(3);
        forked_ranks all(3, [&](int rank) {
            processes::group g(place, rank, 60s);
            if (rank == 2) {
                for (int const r : {0, 1})
                    comes_true([&] { return place.table().slot(r).present == processes::presence::leaving; });
                raise(SIGKILL);
            }
            throw std::logic_error("the hull is broken");
        });
        auto const& o = all.wait(10s);
        for (int const r : {0, 1}) CHECK(o[static_cast<std::size_t>(r)].said == "the hull is broken");
        CHECK(has(place.table().why.text.get(), "rank 2 (process "));
        CHECK(has(place.table().why.text.get(), "died"));
    }

    TEST_CASE(
        "an exception in the middle of a collective, or between its beginning and its end, reaches all as it was") {
        watchdog const guard("in the middle");
        for (bool const in_sum : {true, false}) {
            auto const place = meeting_place::create(3);
            forked_ranks all(3, [&](int rank) {
                processes::group g(place, rank, 20s);
                g.run([&](comm& c) {
                    std::vector<float> x(100, 1.0f);
                    for (int round = 0; round < 3; ++round)
                        run_schedule<float>(c, collective::all_reduce, ring::all_reduce(3), std::span(x),
                                            [&](reduction_view<float> const& v) -> bytes_t {
                                                if (in_sum && rank == 1 && round == 2)
                                                    throw std::runtime_error("the oar is broken");
                                                return v.elements * sizeof(float);
                                            });
                    auto sum = start_all_reduce<ring>(c, x);
                    if (!in_sum && rank == 1) throw std::runtime_error("the oar is broken");
                    sum.wait();
                    barrier<direct>(c);
                });
            });
            for (auto const& o : all.wait(10s)) {
                CAPTURE(in_sum);
                CHECK(o.said == "device 1: the oar is broken");
                CHECK(o.code == 3);
            }
        }
    }

    TEST_CASE("a function that catches an exception which has passed a begun sum is told to make a new group, and the "
              "others, which rank it was") {
        watchdog const guard("caught");
        enum class then { calls, returns, waits };
        for (auto const next : {then::calls, then::returns, then::waits}) {
            CAPTURE(static_cast<int>(next));
            auto const place = meeting_place::create(3);
            shared_value<std::atomic<int>> ended;
            forked_ranks all(3, [&](int rank) {
                processes::group g(place, rank, 20s);
                auto const body = [&](comm& c) {
                    if (rank != 1 && next != then::waits) comes_true([&] { return *ended != 0; });
                    std::vector<float> x(100, 1.0f);
                    try {
                        auto sum = start_all_reduce<ring>(c, x);
                        if (rank == 1) throw 42;
                        sum.wait();
                    } catch (int) {
                        if (next == then::returns) return;
                    }
                    if (rank == 1 && next == then::waits) comes_true([&] { return *ended == 2; });
                    barrier<direct>(c);
                };
                try {
                    g.run(body);
                } catch (...) {
                    ++*ended;
                    throw;
                }
            });
            for (auto const& o : all.wait(30s)) {
                CHECK(o.said ==
                      "device 1: a collective of this group was given up after an exception: make a new group");
                CHECK(o.code == 3);
            }
        }
    }

    TEST_CASE("groups that all ranks stop at once, again and again") {
        watchdog const guard("stops");
        constexpr int rounds = 200;
        auto const seed = test_seed();
        std::vector<meeting_place> places;
        for (int i = 0; i < rounds; ++i) places.push_back(meeting_place::create(3));
        forked_ranks all(3, [&](int rank) {
            std::mt19937_64 random(seed + static_cast<std::uint64_t>(rank));
            for (auto const& place : places) {
                processes::group g(place, rank, 20s);
                try {
                    g.run([&](comm& c) {
                        std::vector<float> x(100);
                        all_reduce<ring>(c, x);
                        if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
                        throw std::runtime_error("all stop");
                    });
                } catch (device_error const&) {
                    continue;
                }
                throw std::logic_error("nothing was thrown");
            }
        });
        all_end_well(all, 100s);
    }

    TEST_CASE("a collective that is begun and dropped stops the others") {
        auto const place = meeting_place::create(2);
        forked_ranks all(2, [&](int rank) {
            processes::group g(place, rank, 20s);
            g.run([&](comm& c) {
                std::vector<float> x(10);
                if (rank == 0)
                    all_reduce<ring>(c, x);
                else
                    (void)start_all_reduce<ring>(c, x);
            });
        });
        for (auto const& o : all.wait(10s)) {
            CAPTURE(o.said);
            CHECK(o.code == 3);
            CHECK(has(o.said, "was begun and dropped"));
        }
    }
}

} // namespace processes_failures_test
