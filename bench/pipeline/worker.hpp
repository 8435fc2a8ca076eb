// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// A network's training step in stages, for bench/harness.py and bench.py beside it:
//
//     WORKER                                                       lists schedules, and rows to cut the network before
//     WORKER steps SCHEDULE BATCH MICRO_BATCHES STAGES ROW         answers seconds with samples per second
//     WORKER overhead BATCH MICRO_BATCHES ROW                      answers seconds with a line about all schedules
//
// ROW is the row that the second of two stages begins with; 0: cut by the FLOPs.

#include "../made_up.hpp"
#include "../step_worker.hpp"
#include "prediction.hpp"

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bench {

using namespace trireme;

/// The schedules that trainers execute: all that the benchmark compares.
inline constexpr schedule_choice schedules[] = {gpipe{}, one_f_one_b{}, zero_bubble_h1{}};

/// Cut of a network into two stages that is chosen when the program runs, so that one trainer serves all cuts.
struct chosen_cut {
    static constexpr std::size_t stages = 0;
    static inline std::size_t row = 0; ///< 0: by the FLOPs

    template<class Network>
    static constexpr range rows(int count, int stage) {
        if (row == 0 || count != 2) return balanced_by_flops::rows<Network>(count, stage);
        return stage == 0 ? range{0, row} : range{row, Network::depth};
    }
};

/// The worker of one network; `Samples` has size() and take(first, count).
template<class Network, class Optimizer = sgd, class Samples = labelled_images>
class pipeline_worker {
public:
    using trainer_type =
        trainer<Network, cross_entropy, Optimizer, on<mesh<host, dp<1>, pp<dynamic>>>, stages_by<chosen_cut>>;

    explicit pipeline_worker(Samples all, float learning_rate = 0.01f)
        : all_(std::move(all)), learning_rate_(learning_rate) {}

    int main(int argc, char** argv) {
        std::string_view const what = argc > 1 ? argv[1] : "";
        auto const number = [&](int i) { return i < argc ? std::strtoull(argv[i], nullptr, 10) : 0; };
        try {
            if (argc == 1) return list();
            if (what == "steps" && argc == 7) {
                choose_cut(number(6));
                auto const stages = static_cast<int>(number(5));
                for (auto const& s : schedules)
                    if (s.name == std::string_view(argv[2])) return steps(s, number(3), number(4), stages);
            }
            if (what == "overhead" && argc == 5) {
                choose_cut(number(4));
                return overhead(number(2), number(3));
            }
        } catch (usage_error const& e) {
            std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
            return 2;
        } catch (std::exception const& e) {
            std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
            return 1;
        }
        std::fprintf(stderr,
                     "usage: WORKER | WORKER steps SCHEDULE BATCH MICRO_BATCHES STAGES ROW | WORKER overhead BATCH "
                     "MICRO_BATCHES ROW\n");
        return 2;
    }

private:
    static constexpr auto const& segments = segments_of<Network>;

    std::unique_ptr<trainer_type> make(schedule_choice const& s, std::size_t batch, std::size_t micro_batches,
                                       int stages, bool trace) const {
        typename trainer_type::options const training{.learning_rate = learning_rate_, .batch = batch};
        typename trainer_type::run_options where{.stages = stages, .micro_batches = micro_batches};
        where.schedule = s;
        where.trace = trace;
        return std::make_unique<trainer_type>(training, where);
    }

    static void choose_cut(std::size_t row) {
        if (row != 0 && !segments.has(row))
            throw usage_error("row " + std::to_string(row) +
                              ": no stage can begin there; without arguments this "
                              "program lists the rows that can");
        chosen_cut::row = row;
    }

    /// Lists the rows that a second stage can begin with, and first the one that the FLOPs choose.
    int list() {
        std::printf("schedules");
        for (auto const& s : schedules) std::printf(" %s", s.name);
        std::printf("\nbalanced %zu\nrows", balanced_by_flops::rows<Network>(2, 1).begin);
        for (std::size_t i = 1; i < segments.count; ++i) std::printf(" %zu", segments.begin[i]);
        std::printf("\n");
        return 0;
    }

    int steps(schedule_choice const& s, std::size_t batch, std::size_t micro_batches, int stages) {
        check_batch(batch);
        auto const t = make(s, batch, micro_batches, stages, false);
        answer_steps(*t, all_, batch);
        return 0;
    }

    /// Measures all schedules in turn, every other time backwards, each as long as it is told. Answers for each, in
    /// their order, with the seconds of a step, those that are predicted from the medians of its tasks' times, and from
    /// each task's own, and those of the shortest kind of task.
    int overhead(std::size_t batch, std::size_t micro_batches) {
        check_batch(batch);
        constexpr auto count = std::size(schedules);
        std::vector<std::unique_ptr<trainer_type>> trainers;
        for (auto const& s : schedules) trainers.push_back(make(s, batch, micro_batches, 2, true));
        say_ready();
        int round = 0;
        for (double seconds = 0; std::scanf("%lf", &seconds) == 1; ++round) {
            std::string figures[count];
            for (std::size_t k = 0; k < count; ++k) {
                auto const i = round % 2 == 0 ? k : count - 1 - k;
                figures[i] = measure(*trainers[i], batch, seconds);
            }
            for (auto const& f : figures) std::printf("%s ", f.c_str());
            std::printf("\n");
            std::fflush(stdout);
        }
        return 0;
    }

    std::string measure(trainer_type& t, std::size_t batch, double limit) {
        train_in_turn(t, all_, place_, batch, 0, [](double) {}); // finds the caches as the last trainer has left them
        auto const before = last_step(t.traced());
        std::vector<double> spans;
        train_in_turn(t, all_, place_, batch, limit, [&](double seconds) { spans.push_back(seconds); });
        auto tasks = t.traced(); // rank by rank, each in its order
        std::ranges::stable_sort(tasks, {}, &timed_task::step);
        prediction expected(t.program(0));
        for (auto from = std::ranges::upper_bound(tasks, before, {}, &timed_task::step); from != tasks.end();) {
            auto const to = std::ranges::upper_bound(from, tasks.end(), from->step, {}, &timed_task::step);
            expected.add(std::span(from, to));
            from = to;
        }
        char text[128];
        std::snprintf(text, sizeof text, "%.9g %.9g %.9g %.9g", median(spans), expected.predicted(),
                      expected.replayed(), expected.shortest_task());
        return text;
    }
    static std::uint64_t last_step(std::vector<timed_task> const& tasks) {
        std::uint64_t last = 0;
        for (auto const& t : tasks) last = std::max(last, t.step);
        return last;
    }

    void check_batch(std::size_t batch) const {
        if (batch == 0 || batch > all_.size())
            throw usage_error("a batch of " + std::to_string(batch) + ": this program has " +
                              std::to_string(all_.size()) + " samples");
    }

    Samples all_;
    float learning_rate_;
    std::size_t place_ = 0;
};

} // namespace bench
