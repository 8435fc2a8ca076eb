// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../../bench/pipeline/prediction.hpp"

#include <support/seed.hpp>

#include <trireme/schedules.hpp>

#include <doctest/doctest.h>
#include <support/built_in_schedules.hpp>
#include <support/built_step.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace predicted_step_test {
using namespace trireme;
using test_support::built_in_schedules;
using test_support::built_step;

namespace {

/// Seconds of an update, in all traces.
constexpr double update_seconds = 3;

/// A step as an executor traces it: every task begins when the one before it has ended, and a task that computes has
/// its wait for the place that it writes to inside. `times(kind, stage)` is asked for each task in turn; `span` becomes
/// what the step takes, updates included.
template<class Times>
std::vector<timed_task> traced(step_program const& p, Times const& times, double& span) {
    std::vector<std::vector<timed_task>> done(static_cast<std::size_t>(p.shape.roles));
    play_step(p, times, [&](int role, std::size_t i, double, double end) {
        auto& mine = done[static_cast<std::size_t>(role)];
        auto const& t = p.list(role)[i];
        auto const before = mine.empty() ? 0 : mine.back().end;
        if (t.kind == task_kind::update) end = before + update_seconds;
        mine.push_back({role, 1, t.kind, role, counted_by(t), before, end});
    });
    std::vector<timed_task> all;
    span = 0;
    for (auto const& mine : done) {
        all.insert(all.end(), mine.begin(), mine.end());
        span = std::max(span, mine.back().end);
    }
    return all;
}

std::vector<schedule_choice> const choices = {gpipe{}, one_f_one_b{}, zero_bubble_h1{}, interleaved<2>{}};

/// The counts are of one role's places while a step is played.
struct places {
    std::set<std::pair<int, int>> held; ///< stages and micro-batches whose values have come, and whose backward has not
    std::size_t most_held = 0;
    int outgoing = 0, most_outgoing = 0; ///< gradients that have been computed and not been taken

    void take(int stage, int micro_batch) {
        CHECK(held.insert({stage, micro_batch}).second);
        most_held = std::max(most_held, held.size());
    }
};

/// The tasks give the counts, in the order in which they are played; the numbers of frames and slots do not.
std::vector<places> places_of(step_program const& p) {
    std::vector<places> roles(static_cast<std::size_t>(p.shape.roles));
    auto const at = [&](int role) -> places& { return roles[static_cast<std::size_t>(role)]; };
    auto const times = [](task_kind kind, int stage) { return kind == task_kind::forward ? 1.0 : 2.0 + stage; };
    auto const done = [&](int role, std::size_t i, double, double) {
        auto const& t = p.list(role)[i];
        if (!t.computes()) return;
        auto const stage = p.stage(role, t.chunk);
        auto& mine = at(role);
        if (goes_forward(t.kind) && stage == 0) mine.take(stage, t.micro_batch);
        CHECK(mine.held.count({stage, t.micro_batch}) == 1);
        if (gives_input(t.kind) && stage > 0) mine.most_outgoing = std::max(mine.most_outgoing, ++mine.outgoing);
        if (gives_weights(t.kind)) mine.held.erase({stage, t.micro_batch});
    };
    auto const took = [&](int role, std::size_t i, int transfer, double) {
        auto const& m = p.list(role)[i].moves[transfer];
        if (m.gradient)
            --at(m.role).outgoing;
        else
            at(role).take(m.to(), m.micro_batch);
    };
    play_step(p, times, done, 0.0, took);
    return roles;
}

} // namespace

TEST_SUITE("schedule/predicted_step") {
    TEST_CASE("a role has as many frames as it holds micro-batches at once, and a slot for each gradient under way") {
        int steps = 0;
        for (auto const& of : built_in_schedules)
            for (int roles = 1; roles <= 8; ++roles)
                for (int const micro_batches : {1, 2, 3, 5, 8, 16, 32})
                    for (int const passes : {1, 2}) {
                        if (micro_batches % passes != 0 || micro_batches / passes < of.least * roles) continue;
                        CAPTURE(std::string(of.schedule.name));
                        CAPTURE(roles);
                        CAPTURE(micro_batches);
                        CAPTURE(passes);
                        built_step const step(of.schedule, {roles, micro_batches, 1, 1, false, false, passes});
                        auto const counted = places_of(step.program);
                        for (std::size_t r = 0; r < counted.size(); ++r) {
                            CAPTURE(r);
                            auto const& is = counted[r];
                            CHECK(is.most_held == step.program.frames[r]);
                            CHECK(is.most_outgoing <= step.program.slots[r]);
                            if (of.schedule.chunks == 1 && passes == 1)
                                CHECK(is.most_outgoing == step.program.slots[r]);
                            CHECK((is.held.empty() && is.outgoing == 0));
                        }
                        ++steps;
                    }
        CHECK(steps > 900);
    }

    TEST_CASE("a message is taken once, when its sender has computed it") {
        for (auto const& choice : {schedule_choice(one_f_one_b{}), schedule_choice(zero_bubble_v{}),
                                   schedule_choice(interleaved<2>{}), schedule_choice(gpipe{})}) {
            CAPTURE(choice.name);
            built_step const step(choice, {4, 8});
            auto const& p = step.program;
            std::map<std::tuple<int, bool, int>, double> computed; // stage, gradient, micro-batch
            std::size_t taken = 0, receives = 0;
            play_step(
                p, [](task_kind, int) { return 1.0; },
                [&](int role, std::size_t i, double, double end) {
                    auto const& t = p.list(role)[i];
                    if (!t.computes()) return;
                    auto const stage = p.stage(role, t.chunk);
                    if (goes_forward(t.kind)) computed[{stage, false, t.micro_batch}] = end;
                    if (gives_input(t.kind)) computed[{stage, true, t.micro_batch}] = end;
                },
                0.0,
                [&](int role, std::size_t i, int transfer, double when) {
                    auto const& m = p.list(role)[i].moves[transfer];
                    CHECK(!m.sends);
                    REQUIRE(computed.count({m.from(), m.gradient, m.micro_batch}) == 1);
                    CHECK(when >= computed.at({m.from(), m.gradient, m.micro_batch}));
                    ++taken;
                });
            for (auto const& t : p.all)
                for (int k = 0; k < t.transfers; ++k) receives += t.moves[k].sends ? 0 : 1;
            CHECK(taken == receives);
            CHECK(taken >= 2 * 3 * 8);
        }
    }

    TEST_CASE("times that are the same in all tasks of a stage give the span that they came from") {
        std::mt19937_64 random(test_seed());
        std::uniform_real_distribution<double> some(0.1, 10);
        for (auto const& choice : choices)
            for (int roles : {2, 3, 4})
                for (int micro_batches : {1, 2, 4, 8}) {
                    if (choice.chunks > 1 && micro_batches % roles != 0) continue;
                    CAPTURE(choice.name);
                    CAPTURE(roles);
                    CAPTURE(micro_batches);
                    built_step const step(choice, {roles, micro_batches});
                    std::vector<stage_times> times(static_cast<std::size_t>(step.program.stage_count()));
                    for (auto& t : times) t = {some(random), some(random), some(random)};
                    auto const of = [&](task_kind kind, int stage) {
                        return times[static_cast<std::size_t>(stage)].of(kind);
                    };
                    double span = 0;
                    auto const tasks = traced(step.program, of, span);
                    bench::prediction p(step.program);
                    p.add(tasks);
                    CHECK(p.predicted() == doctest::Approx(span));
                    CHECK(p.replayed() == doctest::Approx(span));
                    double shortest = 100;
                    for (auto const& t : tasks) {
                        if (t.kind == task_kind::move || is_of_slices(t.kind)) continue;
                        if (choice.chunks == 1)
                            CHECK(p.time_of(t.kind, t.stage) == doctest::Approx(of(t.kind, t.stage)));
                        for (int s = 0; s < step.program.stage_count(); ++s)
                            if (auto const time = p.time_of(t.kind, s); time > 0) shortest = std::min(shortest, time);
                    }
                    CHECK(p.shortest_task() == doctest::Approx(shortest));
                }
    }

    TEST_CASE(
        "the wait for a place is not a task's time: a slow first stage holds up gradients, not their arithmetic") {
        built_step const step(gpipe{}, {2, 8});
        auto const of = [](task_kind kind, int stage) {
            return kind == task_kind::forward ? 1.0 : stage == 0 ? 9.0 : 2.0;
        };
        double span = 0;
        auto const tasks = traced(step.program, of, span);
        auto longest = 0.0;
        for (auto const& t : tasks)
            if (t.rank == 1 && t.kind == task_kind::backward) longest = std::max(longest, t.end - t.begin);
        REQUIRE(longest == doctest::Approx(9)); // in the trace
        bench::prediction p(step.program);
        p.add(tasks);
        CHECK(p.time_of(task_kind::backward, 1) == doctest::Approx(2));
        CHECK(p.predicted() == doctest::Approx(span));
    }

    TEST_CASE("uneven tasks are replayed as they were, and predicted by their median") {
        std::mt19937_64 random(test_seed());
        std::uniform_real_distribution<double> some(1, 2);
        built_step const step(one_f_one_b{}, {2, 8});
        std::vector<double> spans, replays;
        bench::prediction all(step.program);
        for (int k = 0; k < 5; ++k) {
            double span = 0;
            auto const tasks = traced(step.program, [&](task_kind, int) { return some(random); }, span);
            bench::prediction alone(step.program);
            alone.add(tasks);
            all.add(tasks);
            CHECK(alone.replayed() == doctest::Approx(span));
            spans.push_back(span);
        }
        CHECK(all.replayed() == doctest::Approx(bench::median(spans)));

        bench::prediction calm(step.program);
        double span = 0, disturbed = 0;
        auto const even = [](task_kind, int) { return 1.0; };
        calm.add(traced(step.program, even, span));
        calm.add(traced(step.program, even, span));
        int n = 0;
        calm.add(traced(step.program, [&](task_kind, int) { return n++ == 3 ? 50.0 : 1.0; }, disturbed));
        REQUIRE(disturbed > span + 40);
        CHECK(calm.predicted() == doctest::Approx(span));
    }

    TEST_CASE("another program's tasks are refused") {
        built_step const step(gpipe{}, {2, 4}), other(one_f_one_b{}, {2, 4});
        auto const of = [](task_kind, int) { return 1.0; };
        double span = 0;
        auto tasks = traced(other.program, of, span);
        bench::prediction p(step.program);
        CHECK_THROWS_AS(p.add(tasks), std::runtime_error);
        tasks = traced(step.program, of, span);
        tasks.pop_back();
        CHECK_THROWS_AS(p.add(tasks), std::runtime_error);
    }

    TEST_CASE("the median of an even number is the upper one; of nothing it is 0") {
        CHECK(bench::median({}) == 0);
        CHECK(bench::median({3, 1, 2}) == 2);
        CHECK(bench::median({4, 1, 3, 2}) == 3);
    }
}

} // namespace predicted_step_test
