// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Devices that stall where a step or an evaluation begins, in front of its first task.

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/networks.hpp>
#include <support/waiting.hpp>

#include <trireme/trireme.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

namespace trainer_late_devices_test {
namespace {

using namespace trireme;
using namespace std::chrono_literals;
using test_networks::made_up;
using namespace test_waiting;

/// The device that stalls where its next job begins, until its group has been stopped; -1: none.
std::atomic<int> stalls{-1};

/// Threads, one of which stalls.
class stalling_ranks : public thread_ranks {
public:
    using thread_ranks::thread_ranks;

    template<class State, class Job>
    void run(std::shared_ptr<State> const& state, Job) {
        thread_ranks::run(state, [](State& s, communicator& c) {
            if (c.rank() == stalls) until_stopped(c);
            Job{}(s, c);
        });
    }

private:
    static void until_stopped(communicator const& c) {
        try {
            for (;; std::this_thread::sleep_for(1ms)) c.check_stopped();
        } catch (group_stopped const&) {}
    }
};
struct stalling_transport : transport_traits {
    static constexpr bool joins_hosts = true, has_stages = true;
    template<bool Staged>
    using ranks = stalling_ranks;
};

template<class... Axes>
using stalling =
    trainer<test_networks::small, cross_entropy, sgd, on<mesh<host, Axes...>>, transport<stalling_transport>>;

/// Stalls a device in a job of a trainer, behind jobs before it: the error says this of the device's last task.
template<class Trainer, class Before, class Job>
void says(std::string const& words, Before const& before, Job const& job) {
    CAPTURE(words);
    for (int const device : {0, 1}) {
        CAPTURE(device);
        auto const found = with_time_enough(200ms, device, [&](std::chrono::milliseconds deadline) {
            auto const outcome =
                outcome_of_stall([&] { return Trainer({.batch = 16}, {.deadline = deadline}); }, before,
                                 [&](Trainer& t) {
                                     stalls = device;
                                     job(t);
                                 });
            stalls = -1;
            return outcome;
        });
        CAPTURE(found.said);
        REQUIRE(found.stalled);
        REQUIRE(found.device == device);
        CHECK(found.said.ends_with(" (device " + std::to_string(device) + ": " + words + ")"));
    }
}

} // namespace

TEST_SUITE("trainer/late_devices") {
    TEST_CASE(
        "a device that stalls in front of the first task of a step or an evaluation has come to none of its tasks") {
        watchdog const guard("stalls between tasks");
        auto const nothing = [](auto&) {};
        auto const step = [](auto& t) { t.step(made_up(16)); };
        auto const evaluation = [](auto& t) { t.evaluate(made_up(40)); };
        auto const both = [&](auto& t) { step(t), step(t), evaluation(t); };
        using replicas = stalling<dp<2>>;
        using stages = stalling<pp<2>>;
        says<replicas>("no task yet", nothing, step);
        says<stages>("no task yet", nothing, step);
        says<stages>("no task yet", nothing, evaluation);
        says<replicas>("no task since training step 1", step, step);
        says<stages>("no task since training step 1", step, step);
        says<stages>("no task since training step 1", step, evaluation);
        says<replicas>("no task since an evaluation", both, step);
        says<stages>("no task since an evaluation", both, evaluation);
    }
}

} // namespace trainer_late_devices_test
