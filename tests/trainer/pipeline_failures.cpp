// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Devices of a pipeline that fail in front of any task of their step programs.

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>
#include <support/sanitizers.hpp>
#include <support/tied_networks.hpp>
#include <support/waiting.hpp>
#include <trainer/planned_faults.hpp>

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

namespace trainer_pipeline_failures_test {
using namespace trireme;
using namespace test_faults;
using namespace std::chrono_literals;
using test_networks::made_up;
using test_support::has;
using namespace test_waiting;

namespace {

using narrow = network<input<1, 28, 28>, avg_pool2d<4>, flatten, linear<12>, repeat<5, relu, linear<12>>, linear<10>>;

template<class Network, class... Policies>
using faulty =
    test_networks::any_stages<host, Network, cross_entropy, sgd_momentum, with_faults<task_faults>, Policies...>;
using plain = faulty<narrow>;
using tied_and_clipped = faulty<test_tying::often, clip_norm>;

struct placing {
    int devices, stages;
    schedule_choice schedule;
};

/// The number of faults that were in front of a task of each kind.
using hits_by_kind = std::array<int, 12>;
int& of(hits_by_kind& hits, task_kind k) { return hits[static_cast<std::size_t>(k)]; }

template<class Trainer>
auto list_of(Trainer const& t, int rank) {
    return t.program(rank).list(t.plan().layout.role_of(rank));
}

template<class Trainer>
typename Trainer::options training_of(placing const& p) {
    auto const shards = static_cast<std::size_t>(p.devices == 1 ? p.stages + 1 : 4);
    return {.learning_rate = 0.05f, .batch = 16, .seed = 3, .logical_shards = shards};
}
template<class Trainer>
typename Trainer::run_options run_of(placing const& p, std::chrono::duration<double> deadline) {
    return {.devices = p.devices, .stages = p.stages, .schedule = p.schedule, .deadline = deadline, .trace = true};
}
template<class Trainer>
Trainer made(placing const& p, std::chrono::duration<double> deadline) {
    return Trainer(training_of<Trainer>(p), run_of<Trainer>(p, deadline));
}

/// f(rank, task, list) for all tasks of all ranks' step programs, if `takes(rank, task, list)`.
template<class Trainer, class Takes, class F>
void for_tasks(placing const& p, Takes const& takes, F const& f) {
    CAPTURE(p.devices);
    CAPTURE(p.stages);
    CAPTURE(std::string(p.schedule.name));
    task_faults::plan();
    auto const whole = made<Trainer>(p, std::chrono::seconds(60));
    for (int rank = 0; rank < whole.devices(); ++rank) {
        auto const list = list_of(whole, rank);
        for (std::size_t k = 0; k < list.size(); ++k)
            if (takes(rank, k, list)) {
                CAPTURE(rank);
                CAPTURE(k);
                CAPTURE(std::string(name_of(list[k].kind)));
                f(rank, k, list);
            }
    }
}

std::size_t threads_of_process() {
    [[maybe_unused]] static bool const begun =
        (std::thread([] {}).join(), true); // sanitizers add a thread of their own
    return static_cast<std::size_t>(std::ranges::distance(std::filesystem::directory_iterator("/proc/self/task")));
}
/// True if the process comes back to `threads` threads; a device that hangs is one more.
bool all_have_ended(std::size_t threads) {
    for (int i = 0; i < 10000 && threads_of_process() > threads; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return threads_of_process() <= threads;
}

template<class Trainer>
void refuses_to_go_on(Trainer& t) {
    auto const refused = [](auto const& f) {
        CHECK_THROWS_WITH_AS(f(), doctest::Contains("stopped by an earlier error on a device: construct a new one"),
                             usage_error);
    };
    refused([&] { t.step(made_up(16)); });
    refused([&] { t.evaluate(made_up(16)); });
    refused([&] { (void)t.gather_parameters(); });
    refused([&] { (void)t.gather_buffers(); });
    refused([&] { (void)t.wire(0); });
    refused([&] { t.set_learning_rate(0.5f); });
}

template<class Trainer>
void throws_everywhere(placing const& p, hits_by_kind& hits) {
    auto const images = made_up(16);
    auto const all = [](auto...) { return true; };
    for_tasks<Trainer>(p, all, [&](int guilty, std::size_t k, std::span<step_task const> list) {
        auto const threads = threads_of_process();
        auto const said = "the oar is broken at task " + std::to_string(k);
        bool failed = false;
        task_faults::plan(guilty, k, [&] {
            failed = true;
            throw std::runtime_error(said);
        });
        {
            auto t = made<Trainer>(p, std::chrono::hours(1)); // a device that waits for the dead hangs
            REQUIRE_NOTHROW(t.step(images));
            for (int rank = 0; rank < t.devices(); ++rank)
                CHECK(task_faults::in_first_step[static_cast<std::size_t>(rank)].load() == list_of(t, rank).size());
            auto const place = trireme::detail::words_for(t.program(guilty), t.plan().layout.role_of(guilty), k);
            try {
                t.step(images);
                FAIL("the fault was swallowed");
            } catch (device_error const& e) {
                CHECK(e.device() == guilty);
                CHECK(e.what() ==
                      "device " + std::to_string(guilty) + ": " + said + " (" + place + ", training step 2)");
                CHECK_THROWS_WITH_AS(std::rethrow_exception(e.cause()), said.c_str(), std::runtime_error);
            }
            CHECK(failed);
            bool const after_those_before = has_done(t.traced(), guilty, list, k);
            CHECK(after_those_before);
            refuses_to_go_on(t);
            of(hits, list[k].kind) += failed && after_those_before ? 1 : 0;
        }
        CHECK(all_have_ended(threads));
    });
    task_faults::plan();
}

/// True if no device waits for rank 0 from a task on: device 0 is the caller's own thread, which waits for all others.
/// The roles of a replica meet, where there are several.
bool is_awaited_by_none(placing const& p, int rank, std::size_t k, std::span<step_task const> list) {
    return rank == 0 && std::ranges::all_of(list.subspan(k), [&](step_task const& t) {
               return t.kind == task_kind::update || (p.stages == 1 && is_meeting(t.kind));
           });
}

/// Two steps of a trainer whose device stalls in front of its k-th task for three times the deadline.
template<class Trainer>
stall_outcome trial_of_stall(placing const& p, int guilty, std::size_t k, std::chrono::milliseconds deadline) {
    static std::atomic<bool> stalled;
    stalled = false;
    task_faults::plan(guilty, k, [deadline] {
        stalled = true;
        fall_asleep(3 * deadline);
    });
    auto const images = made_up(16);
    auto const step = [&](Trainer& t) { t.step(images); };
    auto found = outcome_of_stall([&] { return made<Trainer>(p, deadline); }, step, step);
    found.stalled = stalled; // another device may be late in the same step
    return found;
}

/// A stall in front of each task that is taken. A busy machine may make another device late as well: the trials that
/// follow have the time that was enough then, so that few of them name another one.
template<class Trainer, class Takes>
void stalls(placing const& p, Takes const& takes, hits_by_kind& hits, std::chrono::milliseconds shortest) {
    int trials = 0, of_another = 0;
    auto enough = shortest * (sanitized ? 4 : 1);
    for_tasks<Trainer>(p, takes, [&](int guilty, std::size_t k, std::span<step_task const> list) {
        ++trials;
        int const late = is_awaited_by_none(p, guilty, k, list) ? -1 : guilty; // else the step is late, and complete
        auto const found = with_time_enough(
            enough, late, [&](auto deadline) { return trial_of_stall<Trainer>(p, guilty, k, deadline); });
        of_another += found.of_others;
        if (found.of_others != 0) enough = found.deadline;
        CAPTURE(found.said);
        REQUIRE(found.stalled);
        REQUIRE(found.device == late);
        if (late == -1) return;
        CHECK(has(found.said, "device " + std::to_string(guilty) + " did not "));
        CHECK(has(found.said, "within the deadline"));
        auto const layout = Trainer::layout_of(training_of<Trainer>(p), run_of<Trainer>(p, found.deadline));
        rank_programs const programs(layout, guilty);
        auto const place = trireme::detail::words_for(programs.step(), layout.role_of(guilty), k);
        CHECK(found.said.ends_with("(device " + std::to_string(guilty) + ": " + place + ", training step 2)"));
        of(hits, list[k].kind) += found.device == guilty ? 1 : 0;
    });
    CAPTURE(trials);
    CHECK(of_another <= 4 + trials / 16);
    task_faults::plan();
}

void require_all(hits_by_kind& hits, std::initializer_list<task_kind> kinds) {
    std::string told;
    for (auto const k : kinds) told += std::string(name_of(k)) + " " + std::to_string(of(hits, k)) + ", ";
    MESSAGE(told);
    for (auto const k : kinds) {
        CAPTURE(std::string(name_of(k)));
        REQUIRE(of(hits, k) > 0);
    }
}

} // namespace

TEST_SUITE("trainer/pipeline_failures") {
    TEST_CASE("a device that throws in front of any task is named, the others end, and the trainer is stopped") {
        watchdog const guard("throws at every task", 300);
        hits_by_kind hits{};
        for (int const stages : {2, 3}) {
            throws_everywhere<plain>({1, stages, one_f_one_b{}}, hits);
            throws_everywhere<plain>({1, stages, zero_bubble_v{}}, hits);
        }
        throws_everywhere<tied_and_clipped>({2, 2, one_f_one_b{}}, hits);
        throws_everywhere<tied_and_clipped>({2, 2, zero_bubble_v{}}, hits);
        throws_everywhere<tied_and_clipped>({2, 1, one_f_one_b{}}, hits); // forward and backward are one task
        require_all(hits, {task_kind::forward, task_kind::backward, task_kind::backward_input,
                           task_kind::backward_weights, task_kind::train, task_kind::move, task_kind::collective,
                           task_kind::add_tied, task_kind::measure, task_kind::update, task_kind::copy_tied});
    }

    TEST_CASE("a device that stalls in front of a task is named by the deadline error") {
        watchdog const guard("stalls at tasks", 300);
        auto const threads = threads_of_process();
        hits_by_kind hits{};
        /// One task of each kind, on ranks in turn, the middle one of its kind there; and the last task of rank 0.
        auto const one_of_each_kind = [](int ranks) {
            return [ranks](int rank, std::size_t k, std::span<step_task const> list) {
                auto const kind = list[k].kind;
                auto const same = [&](step_task const& t) { return t.kind == kind; };
                auto const before = std::ranges::count_if(list.first(k), same);
                bool const in_turn = (static_cast<int>(kind) + 1) % ranks == rank;
                return (in_turn && before == std::ranges::count_if(list, same) / 2) ||
                       (rank == 0 && k + 1 == list.size());
            };
        };
        stalls<plain>({1, 3, zero_bubble_v{}}, one_of_each_kind(3), hits, 300ms);
        stalls<tied_and_clipped>({2, 2, one_f_one_b{}}, one_of_each_kind(4), hits, 300ms);
        until_all_awake();
        CHECK(all_have_ended(threads));
        require_all(hits, {task_kind::forward, task_kind::backward, task_kind::backward_input,
                           task_kind::backward_weights, task_kind::move, task_kind::collective, task_kind::add_tied,
                           task_kind::measure, task_kind::update, task_kind::copy_tied});
    }

    TEST_CASE("so is one that stalls in front of any task of two stages, or of two replicas, with its task and step") {
        watchdog const guard("stalls at every task", 300);
        auto const threads = threads_of_process();
        hits_by_kind hits{};
        auto const all = [](auto...) { return true; };
        stalls<plain>({1, 2, one_f_one_b{}}, all, hits, 60ms);
        stalls<tied_and_clipped>({2, 1, one_f_one_b{}}, all, hits, 60ms);
        until_all_awake();
        CHECK(all_have_ended(threads));
        require_all(hits, {task_kind::forward, task_kind::backward, task_kind::train, task_kind::move,
                           task_kind::collective, task_kind::add_tied, task_kind::measure, task_kind::update});
    }
}

} // namespace trainer_pipeline_failures_test
