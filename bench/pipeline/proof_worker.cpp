// SPDX-FileCopyrightText: The Trireme authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a large step costs before it runs, as a worker of bench/harness.py: proof_worker WAY SCHEDULE STAGES
// MICRO_BATCHES answers with steps per second.
//
//     build    the step program from the schedule
//     verify   its proof

#include "../step_worker.hpp"
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
        for (double sum = 0; all.empty() || sum < limit; sum += all.back()) {
            auto const begin = std::chrono::steady_clock::now();
            once();
            all.push_back(bench::seconds_since(begin));
        }
        return 1 / bench::median(std::move(all));
    };
    bench::answer(measure);
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
