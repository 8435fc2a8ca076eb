// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranks of a pipeline that are killed or stopped in front of any task of their step programs: real processes and real
// signals.

#include <trireme/processes.hpp>
#include <trireme/schedules.hpp>

#include <doctest/doctest.h>
#include <group/watchdog.hpp>
#include <support/forked.hpp>
#include <support/messages.hpp>
#include <support/networks.hpp>
#include <support/sanitizers.hpp>
#include <support/tied_networks.hpp>
#include <trainer/planned_faults.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <signal.h>

namespace processes_pipeline_failures_test {
namespace {

using namespace trireme;
using namespace std::chrono_literals;
using processes::meeting_place;
using test_faults::task_faults;
using test_networks::made_up;
using test_support::has;

/// Every kind of task: gradients are added over two replicas, clipped, and those of tied rows exchanged.
using faulty = test_networks::any_stages<host, test_tying::often, cross_entropy, sgd_momentum, clip_norm,
                                         transport<shared_windows>, with_faults<task_faults>>;
constexpr int devices = 2, stages = 2, ranks = devices * stages;

faulty::options const training{.learning_rate = 0.05f, .batch = 16, .seed = 3, .logical_shards = 4};

/// A rank that gets a signal in front of a task.
struct failure {
    schedule_choice schedule;
    int victim;
    std::size_t task;
    task_kind kind;
};

/// All tasks of all ranks, with a schedule of halves and one without.
std::vector<failure> all_tasks() {
    std::vector<failure> all;
    for (schedule_choice const& schedule : {schedule_choice(one_f_one_b{}), schedule_choice(zero_bubble_v{})}) {
        auto const l = faulty::layout_of(training, {.devices = devices, .stages = stages, .schedule = schedule});
        for (int rank = 0; rank < ranks; ++rank) {
            rank_programs const programs(l, rank);
            auto const list = programs.step().list(l.role_of(rank));
            for (std::size_t k = 0; k < list.size(); ++k) all.push_back({schedule, rank, k, list[k].kind});
        }
    }
    return all;
}

/// A group of ranks one of which sends itself a signal.
class failing_group {
public:
    failing_group(failure const& f, int signal, std::chrono::duration<double> deadline)
        : failure_(f), place_(meeting_place::create(ranks)),
          all_(ranks, [this, signal, deadline](int rank) { run(rank, signal, deadline); }) {}

    /// Waits for the ends of all ranks, and ends the victim if it is only stopped. Returns all that is not as it should
    /// be: the others end and name the victim, which was in front of the task that was meant.
    std::string faults(int signal) {
        std::string found;
        auto const others = all_.wait(sanitized ? 100s : 30s, failure_.victim);
        for (int r = 0; r < ranks; ++r) {
            auto const& o = others[static_cast<std::size_t>(r)];
            if (r == failure_.victim || (o.ended && o.code == 0)) continue;
            found += "rank " + std::to_string(r) + (o.ended ? " ended, and said: " + o.said : " hangs") + "; ";
        }
        auto const victim = static_cast<std::size_t>(failure_.victim);
        if (signal != SIGKILL) {
            if (others[victim].ended) found += "the victim was not stopped; ";
            all_.send(failure_.victim, SIGKILL);
        }
        if (all_.wait(30s)[victim].signal != SIGKILL) found += "the victim was not killed; ";
        if (*reached_ != 1) found += "the victim was in front of another task; ";
        return found;
    }

    bool came_to_fault() const { return *reached_ != 0; }

private:
    void run(int rank, int signal, std::chrono::duration<double> deadline) {
        faulty t(training, {.devices = devices,
                            .stages = stages,
                            .schedule = failure_.schedule,
                            .deadline = deadline,
                            .trace = true,
                            .processes = seat{place_, rank}});
        auto const list = t.program(rank).list(t.plan().layout.role_of(rank));
        bool counts = false;
        task_faults::plan(failure_.victim, failure_.task, [&] {
            *reached_ = counts ? 1 : 2;
            raise(signal);
        });
        auto const images = made_up(16);
        try {
            t.step(images); // a rank that is late hears of a death here
            counts = rank == failure_.victim &&
                     task_faults::in_first_step[static_cast<std::size_t>(rank)] == list.size() &&
                     test_faults::has_done(t.traced(), rank, list, list.size(), 1) &&
                     list[failure_.task].kind == failure_.kind;
            t.step(images);
            throw std::runtime_error("no rank is missed");
        } catch (peer_lost_error const& e) {
            if (signal != SIGKILL || e.device() != failure_.victim || !has(e.what(), "in training step 2")) throw;
        } catch (deadline_error const& e) {
            auto const late = "rank " + std::to_string(failure_.victim) + " did not arrive within the deadline of ";
            auto const its_step = "rank " + std::to_string(failure_.victim) + " is in training step 2";
            if (signal == SIGKILL || e.device() != failure_.victim || !has(e.what(), late) || !has(e.what(), its_step))
                throw;
        }
        try {
            t.step(images);
        } catch (usage_error const&) {
            return;
        }
        throw std::runtime_error("the trainer goes on");
    }

    failure failure_;
    meeting_place place_;
    shared_value<int> reached_; ///< 1: the task that was meant; 2: another, for the victim counts other tasks
    forked_ranks all_;
};

/// Sends signals in front of these tasks, in some groups at once, and counts the kinds of the tasks.
void fail_at(std::vector<failure> const& failures, int signal, std::chrono::duration<double> deadline,
             std::size_t at_once) {
    std::array<int, 12> hits{};
    for (std::size_t begin = 0; begin < failures.size(); begin += at_once) {
        std::vector<std::unique_ptr<failing_group>> groups;
        auto const end = std::min(begin + at_once, failures.size());
        for (auto i = begin; i < end; ++i)
            groups.push_back(std::make_unique<failing_group>(failures[i], signal, deadline));
        for (auto i = begin; i < end; ++i) {
            auto const& f = failures[i];
            CAPTURE(std::string(f.schedule.name));
            CAPTURE(f.victim);
            CAPTURE(f.task);
            CAPTURE(std::string(name_of(f.kind)));
            auto found = groups[i - begin]->faults(signal);
            if (!groups[i - begin]->came_to_fault()) // ranks of a busy machine may be late before it
                found = failing_group(f, signal, 5 * deadline).faults(signal);
            CHECK(found == "");
            hits[static_cast<std::size_t>(f.kind)] += found.empty() ? 1 : 0;
        }
    }
    std::string told;
    for (auto const k : {task_kind::forward, task_kind::backward, task_kind::backward_input,
                         task_kind::backward_weights, task_kind::move, task_kind::collective, task_kind::add_tied,
                         task_kind::measure, task_kind::update, task_kind::copy_tied}) {
        CAPTURE(std::string(name_of(k)));
        auto const n = hits[static_cast<std::size_t>(k)];
        told += std::string(name_of(k)) + ' ' + std::to_string(n) + ' ';
        REQUIRE(n > 0);
    }
    MESSAGE(told);
}

} // namespace

TEST_SUITE("processes/pipeline_failures") {
    TEST_CASE("a rank that is killed in front of any task is named by all others, with the step") {
        watchdog const guard("killed at every task", 300);
        fail_at(all_tasks(), SIGKILL, 60s, 8);
    }

    TEST_CASE("a rank that is stopped in front of a task is named by the others when the deadline has passed") {
        watchdog const guard("stopped at tasks", 300);
        auto const all = all_tasks();
        std::vector<failure> some; // of each rank the first task of each kind, and of one rank all
        for (auto const& f : all)
            if ((f.victim == 1 && f.schedule.chunks == 1) || std::ranges::none_of(some, [&](failure const& s) {
                    return s.victim == f.victim && s.kind == f.kind && s.schedule.chunks == f.schedule.chunks;
                }))
                some.push_back(f);
        fail_at(some, SIGSTOP, sanitized ? 10s : 2s, 10);
    }
}

} // namespace processes_pipeline_failures_test
