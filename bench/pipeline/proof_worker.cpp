// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a large step costs before it runs, as a worker of bench/harness.py: proof_worker WAY SCHEDULE STAGES
// MICRO_BATCHES answers with steps per second.
//
//     build    the step program from the schedule
//     verify   its proof

#include "prediction.hpp"

#include <trireme/schedules.hpp>
#include <trireme/trireme.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace trireme;
using clock_type = std::chrono::steady_clock;

/// The seconds of `f()`.
template<class F>
double seconds_of_call(F const& f) {
    auto const begin = clock_type::now();
    f();
    return std::chrono::duration<double>(clock_type::now() - begin).count();
}

int work(bool builds, schedule_choice const& schedule, step_shape const& shape) {
    std::vector<step_task> room(step_capacity(schedule, shape));
    auto program = build_step(schedule, shape, room);
    auto const once = [&] {
        if (builds)
            program = build_step(schedule, shape, room);
        else if (!verify(program, by_counters).ok())
            throw std::runtime_error("the step is none");
    };
    auto const measure = [&](double limit) {
        std::vector<double> all;
        for (double sum = 0; all.empty() || sum < limit; sum += all.back()) all.push_back(seconds_of_call(once));
        return 1 / bench::median(std::move(all));
    };
    measure(0);
    std::printf("ready Trireme %d.%d.%d, %zu tasks\n", TRIREME_VERSION_MAJOR, TRIREME_VERSION_MINOR,
                TRIREME_VERSION_PATCH, program.all.size());
    std::fflush(stdout);
    for (double limit = 0; std::scanf("%lf", &limit) == 1;) {
        std::printf("%.17g\n", measure(limit));
        std::fflush(stdout);
    }
    return 0;
}

} // namespace

int main(int argc, char** argv) try {
    std::string_view const way = argc == 5 ? argv[1] : "";
    if (way == "build" || way == "verify")
        return work(way == "build", schedule_named(argv[2]),
                    {.roles = std::atoi(argv[3]), .micro_batches = std::atoi(argv[4])});
    std::fprintf(stderr, "usage: proof_worker build | verify SCHEDULE STAGES MICRO_BATCHES\n");
    return 2;
} catch (std::exception const& e) {
    std::fprintf(stderr, "proof_worker: %s\n", e.what());
    return 1;
}
